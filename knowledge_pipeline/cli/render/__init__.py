"""How the command line shows things: tables, trees and progress for people, values for programs."""
