-- The same for PostgreSQL, which replaces a row only when it is told to.
-- param id: 1..1000000000
-- param shop: 1..1000
-- param cents: 1..100000

-- name: insert
-- columns: 0
INSERT INTO events (id, shop, kind, cents) VALUES ({{id}}, {{shop}}, 'click', {{cents}})
ON CONFLICT (id) DO UPDATE SET shop = EXCLUDED.shop, kind = EXCLUDED.kind, cents = EXCLUDED.cents;
