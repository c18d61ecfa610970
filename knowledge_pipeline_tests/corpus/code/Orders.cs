using System;
using System.Collections.Generic;
using Json = System.Text.Json;

namespace Shop.Orders
{
    /// <summary>What went wrong.</summary>
    public enum Problem { None, Missing }

    public delegate void Changed(Order order);

    public interface IOrders : IDisposable
    {
        Order? Find(int id);
    }

    public readonly struct Money
    {
        public readonly decimal Amount;
    }

    public record Order(int Id, Money Total);

    /// <summary>Keeps orders.</summary>
    [Serializable]
    public sealed class Orders : Repository<Order>, IOrders
    {
        private const int Limit = 10;
        private readonly Dictionary<int, Order> kept = new();

        public Orders(int limit)
        {
            this.limit = limit;
        }

        public int Count => kept.Count;

        /// <summary>Finds an order by its number.</summary>
        [Obsolete("use FindAsync")]
        public Order? Find(int id)
        {
            if (id < 0 || kept.Count == 0)
            {
                return null;
            }
            foreach (var order in kept.Values)
            {
                if (order.Id == id) return order;
            }
            return null;
        }

        public void Dispose()
        {
            kept.Clear();
        }
    }
}
