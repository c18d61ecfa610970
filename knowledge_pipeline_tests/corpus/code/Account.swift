import Foundation
import UIKit.UIView

let maximumAmount = 100

typealias Amount = Int

/// Something with a balance.
protocol Balanced: AnyObject {
    var balance: Amount { get }
    func deposit(_ amount: Amount) throws
}

enum AccountError: Error {
    case tooMuch
    case closed(since: Date)
}

/// A bank account.
@objc
public final class Account: Base, Balanced {
    private(set) var balance: Amount = 0

    init(balance: Amount) {
        self.balance = balance
    }

    /// Puts money in.
    @discardableResult
    public func deposit(_ amount: Amount) throws -> Amount {
        guard amount > 0 && amount < maximumAmount else {
            throw AccountError.tooMuch
        }
        for _ in 0..<3 {
            if balance > 10 {
                balance += amount
            }
        }
        return balance
    }

    deinit {
        print("gone")
    }
}

struct Transfer {
    let amount: Amount

    func run() {
        switch amount {
        case 0:
            break
        default:
            print("💶")
        }
    }
}

extension Account: CustomStringConvertible {
    var description: String { "Account" }

    func close() {
        balance = 0
    }
}

func total<T: Balanced>(of accounts: [T]) -> Amount {
    return accounts.isEmpty ? 0 : accounts.reduce(0) { $0 + $1.balance }
}
