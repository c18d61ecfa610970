defmodule Shop.Cart do
  @moduledoc """
  A cart: what somebody wants to buy – not yet bought.
  """

  @behaviour Shop.Basket
  use GenServer
  alias Shop.{Item, Price}
  import Ecto.Query
  require Logger

  @limit 50

  defstruct items: [], owner: nil

  defmodule Full do
    defexception message: "the cart is full"
  end

  @doc "Adds an item, unless the cart is full."
  @spec add(t, Item.t()) :: t
  def add(%__MODULE__{items: items} = cart, item) when length(items) < @limit do
    %{cart | items: [item | items]}
  end

  def add(_cart, _item), do: raise(Full)

  # Sums up in cents.
  def total(cart) do
    if cart.items == [] and cart.owner do
      0
    else
      Enum.reduce(cart.items, 0, fn item, sum -> sum + Price.of(item) end)
    end
  end

  defp describe(item) do
    case item do
      %Item{name: name} -> name
      _ -> "?"
    end
  end

  defmacro limit, do: @limit
end

defprotocol Shop.Priced do
  @doc "What a thing costs."
  def price(thing)
end

defimpl Shop.Priced, for: Shop.Item do
  def price(item), do: item.cents
end
