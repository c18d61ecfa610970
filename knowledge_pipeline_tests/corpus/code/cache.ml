(** A cache of results – bounded. *)

open Printf
module Names = Map.Make (String)

(** What goes wrong. *)
exception Full of int

type 'a entry = {
  value : 'a;
  used_at : float;
}

type state = Idle | Busy

module type STORE = sig
  type t
  val find : string -> t option
end

let capacity = 100

(** Whether an entry is old. *)
let is_old ~now entry =
  if now -. entry.used_at > 60.0 && capacity > 0 then true else false

module Bounded = struct
  let size = Names.cardinal

  (* Puts a value, unless the cache is full. *)
  let put name value names =
    match Names.find_opt name names with
    | Some _ -> names
    | None -> Names.add name value names
end

class counter = object
  val mutable count = 0
  method next = count <- count + 1; count
end

let () = printf "%d\n" capacity
