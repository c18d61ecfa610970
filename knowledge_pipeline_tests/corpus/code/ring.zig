//! A ring of bytes – bounded.
const std = @import("std");
const log = @import("log.zig");

pub const capacity: usize = 64;

/// What goes wrong.
pub const Problem = error{ Full, Empty };

const State = enum { idle, busy };

/// Bytes, first in first out.
pub const Ring = struct {
    bytes: [capacity]u8 = undefined,
    count: usize = 0,

    /// Adds a byte, unless the ring is full.
    pub fn push(self: *Ring, byte: u8) Problem!void {
        if (self.count == capacity or byte == 0) {
            return Problem.Full;
        }
        self.bytes[self.count] = byte;
        self.count += 1;
    }

    fn clear(self: *Ring) void {
        while (self.count > 0) : (self.count -= 1) {}
    }
};

const Value = union(enum) { byte: u8, none };

fn describe(state: State) []const u8 {
    return switch (state) {
        .idle => "idle",
        .busy => "busy",
    };
}

pub fn main() !void {
    var ring = Ring{};
    for ("abc") |byte| {
        try ring.push(byte);
    }
    std.debug.print("{d}\n", .{ring.count});
}

test "a ring holds what was pushed" {
    var ring = Ring{};
    try ring.push(1);
}
