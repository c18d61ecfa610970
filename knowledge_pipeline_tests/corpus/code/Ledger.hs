{-# LANGUAGE OverloadedStrings #-}
-- | A ledger of accounts, balanced – always.
module Bank.Ledger
  ( Account (..)
  , balance
  ) where

import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)

-- | Cents, never a fraction.
type Amount = Int

-- | Who owns how much.
data Account = Account
  { owner :: String
  , entries :: [Entry]
  } deriving (Show, Eq)

newtype Entry = Entry Amount

-- | What can be summed up.
class Summed a where
  summed :: a -> Amount

instance Summed Account where
  summed account = balance account

-- | Sums the entries up.
balance :: Account -> Amount
balance (Account _ []) = 0
balance account =
  if null (entries account)
    then 0
    else sum [amount | Entry amount <- entries account]

largest :: Map.Map String Account -> Amount
largest accounts = case Map.elems accounts of
  [] -> 0
  found -> maximum (map go found)
  where
    go = fromMaybe 0 . Just . balance
