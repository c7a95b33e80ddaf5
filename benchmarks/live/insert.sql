-- Single rows, each a statement of its own, as programs write events.
-- param id: 1..1000000000
-- param shop: 1..1000
-- param cents: 1..100000

-- name: insert
-- columns: 0
INSERT INTO events (id, shop, kind, cents) VALUES ({{id}}, {{shop}}, 'click', {{cents}});
