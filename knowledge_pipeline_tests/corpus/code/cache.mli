(** A cache of results. *)

open Printf

exception Full of int

type 'a entry

val capacity : int

(** Whether an entry is old. *)
val is_old : now:float -> 'a entry -> bool

module Bounded : sig
  val size : 'a -> int
end
