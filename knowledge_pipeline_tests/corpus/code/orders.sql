-- Orders and what they hold – in cents.

CREATE TABLE shop.orders (
    id bigint PRIMARY KEY,
    customer_id bigint NOT NULL REFERENCES customers (id),
    placed_at timestamp NOT NULL DEFAULT now()
);

CREATE INDEX orders_by_customer ON shop.orders (customer_id);

-- What each customer paid.
CREATE VIEW paid AS
SELECT customer_id, sum(cents) AS cents
FROM shop.orders JOIN lines ON lines.order_id = orders.id
WHERE state = 'paid' AND cents > 0
GROUP BY customer_id;

CREATE TYPE mood AS ENUM ('sad', 'ok');

CREATE FUNCTION total(wanted bigint) RETURNS bigint AS $$
    SELECT sum(cents) FROM lines WHERE order_id = wanted;
$$ LANGUAGE sql;

ALTER TABLE shop.orders ADD COLUMN note text;

INSERT INTO lines (order_id, cents) VALUES (1, 100), (2, 250);

WITH recent AS (SELECT id FROM shop.orders WHERE placed_at > now() - interval '1 day')
SELECT CASE WHEN count(*) > 0 THEN 'some' ELSE 'none' END FROM recent;

UPDATE shop.orders SET note = 'late' WHERE id = 1;
