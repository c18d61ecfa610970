"""What commands print: tables, trees and progress for people, values for programs."""
