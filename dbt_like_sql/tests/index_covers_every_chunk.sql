-- A source has as many rows in the index as it has chunks.
select source, chunks, indexed_rows
from index_coverage
where chunks <> indexed_rows
