; See python.scm for the meaning of captures.

(from_instruction as: (_) @name) @stage
(from_instruction !as (image_spec) @name) @stage
