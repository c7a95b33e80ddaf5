<?php
// PHP's PDO and pg_ functions as programs use them: a line `name<TAB>answer` for each check, an error as its SQLSTATE.
$place = sprintf('host=%s port=%s dbname=%s user=%s', getenv('PGHOST'), getenv('PGPORT'), getenv('PGDATABASE'), getenv('PGUSER'));
function check($name, $use) {
    global $place;
    try {
        $db = new PDO("pgsql:$place", null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
        $answer = json_encode($use($db), JSON_UNESCAPED_UNICODE | JSON_PARTIAL_OUTPUT_ON_ERROR);
    } catch (PDOException $e) {
        $answer = 'SQLSTATE ' . $e->getCode();
    } catch (Throwable $e) {
        $answer = 'error ' . $e->getMessage();
    }
    echo "$name\t", str_replace("\n", '\n', $answer), "\n";
}
$all = fn($db, $sql, $args = []) => (function () use ($db, $sql, $args) { $s = $db->prepare($sql); $s->execute($args); return $s->fetchAll(PDO::FETCH_ASSOC); })();
check('setup', fn($db) => array_map(fn($sql) => $db->exec($sql), ['DROP TABLE IF EXISTS ph_rows', 'CREATE TABLE ph_rows (id INT PRIMARY KEY, name VARCHAR(20), amount NUMERIC(10,2), ok BOOLEAN, big BIGINT, d DATE, ts TIMESTAMP, f DOUBLE PRECISION, raw BYTEA, u UUID)',
    "INSERT INTO ph_rows VALUES (1, 'one', 1.5, true, 5, '2024-01-02', '2024-01-02 03:04:05', 2.5, '\\x0102', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), (2, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, NULL)"]));
check('all', fn($db) => array_map(fn($row) => array_map(fn($v) => is_resource($v) ? bin2hex(stream_get_contents($v)) : $v, $row), $all($db, 'SELECT * FROM ph_rows ORDER BY id')));
check('literals', fn($db) => $all($db, "SELECT 1 AS a, 1.5 AS b, 'x' AS c, true AS d, NULL AS e"));
check('positional', fn($db) => $all($db, 'SELECT id FROM ph_rows WHERE id = ? AND name = ? AND amount > ?', [1, 'one', 1.25]));
check('named', fn($db) => $all($db, 'SELECT id FROM ph_rows WHERE id = :id AND ok = :ok', ['id' => 1, 'ok' => 'true']));
check('bound types', function ($db) { $s = $db->prepare('SELECT id FROM ph_rows WHERE id = ? AND ok = ? AND raw = ? AND d = ?'); $raw = "\x01\x02"; $s->bindValue(1, 1, PDO::PARAM_INT); $s->bindValue(2, true, PDO::PARAM_BOOL); $s->bindParam(3, $raw, PDO::PARAM_LOB); $s->bindValue(4, '2024-01-02'); $s->execute(); return $s->fetchAll(PDO::FETCH_NUM); });
check('null', fn($db) => $all($db, 'SELECT ?::int IS NULL AS n', [null]));
check('limit', function ($db) { $s = $db->prepare('SELECT id FROM ph_rows ORDER BY id LIMIT ? OFFSET ?'); $s->execute([1, 1]); return $s->fetchAll(); });
check('emulated', function ($db) use ($all) { $db->setAttribute(PDO::ATTR_EMULATE_PREPARES, true); return $all($db, 'SELECT id FROM ph_rows WHERE id = ? AND name = ?', [1, "one"]); });
check('not prepared', function ($db) use ($all) { $db->setAttribute(PDO::PGSQL_ATTR_DISABLE_PREPARES, true); return $all($db, 'SELECT id FROM ph_rows WHERE id = ?', [1]); });
check('column meta', function ($db) { $s = $db->query('SELECT id, name, amount, raw, 1 AS one FROM ph_rows'); return array_map(fn($i) => array_diff_key($s->getColumnMeta($i), ['pgsql:table_oid' => 0]), range(0, 4)); });
check('scroll', function ($db) { $db->beginTransaction(); $s = $db->prepare('SELECT id FROM ph_rows ORDER BY id', [PDO::ATTR_CURSOR => PDO::CURSOR_SCROLL]); $s->execute(); return [$s->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_LAST), $s->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_FIRST), $s->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_NEXT)]; });
check('counts', fn($db) => [$db->exec("INSERT INTO ph_rows (id, name) VALUES (3, 'c')"), $db->exec("UPDATE ph_rows SET name = 'd' WHERE id = 3"), $db->exec('DELETE FROM ph_rows WHERE id = 3')]);
check('returning', fn($db) => [$all($db, "INSERT INTO ph_rows (id, name) VALUES (4, 'r') RETURNING id, name"), $all($db, 'DELETE FROM ph_rows WHERE id = 4 RETURNING id')]);
check('transaction', function ($db) { $db->beginTransaction(); $a = $db->inTransaction(); $db->commit(); return [$a, $db->inTransaction()]; });
check('failed transaction', function ($db) { $db->beginTransaction(); try { $db->query('SELECT 1/0'); } catch (PDOException $e) { } try { $db->query('SELECT 1'); } catch (PDOException $e) { $state = $e->getCode(); } $db->rollBack(); return [$state, $db->query('SELECT true')->fetchAll()]; });
check('copy', fn($db) => [$db->pgsqlCopyFromArray('ph_rows', ["10\tx\n", "11\ty\n"], "\t", '\\\\N', 'id, name'), $db->pgsqlCopyToArray('ph_rows', '|', '-', 'id, name'), $db->exec('DELETE FROM ph_rows WHERE id > 9')]);
check('last insert id', fn($db) => $db->lastInsertId());
check('notify', function ($db) { $db->exec('LISTEN ph_channel'); $db->exec("NOTIFY ph_channel, 'hello'"); $n = $db->pgsqlGetNotify(PDO::FETCH_ASSOC, 1000); return [$n['message'], $n['payload']]; });
check('question mark', fn($db) => $all($db, "SELECT 'a?b' AS q, id FROM ph_rows WHERE id = ?", [1]));
check('attributes', fn($db) => [$db->getAttribute(PDO::ATTR_DRIVER_NAME), (int) $db->getAttribute(PDO::ATTR_SERVER_VERSION)]);
foreach (['pg meta data' => fn($c) => array_map(fn($m) => [$m['num'], $m['type'], $m['len'], $m['not null'], $m['has default']], pg_meta_data($c, 'ph_rows')),
    'pg insert' => fn($c) => pg_insert($c, 'ph_rows', ['id' => '20', 'name' => 'ins', 'amount' => '2.5', 'ok' => 't']) !== false,
    'pg update' => fn($c) => pg_update($c, 'ph_rows', ['name' => 'upd'], ['id' => '20']),
    'pg select' => fn($c) => pg_select($c, 'ph_rows', ['id' => '20']),
    'pg delete' => fn($c) => pg_delete($c, 'ph_rows', ['id' => '20']),
    'pg params' => fn($c) => pg_fetch_all(pg_query_params($c, 'SELECT id, name FROM ph_rows WHERE id = $1', [1])),
    'pg fields' => function ($c) { $r = pg_query($c, 'SELECT id, name, amount FROM ph_rows'); return array_map(fn($i) => [pg_field_name($r, $i), pg_field_type($r, $i), pg_field_size($r, $i), pg_field_table($r, $i)], [0, 1, 2]); },
    'pg prepared' => function ($c) { pg_prepare($c, 'p', 'SELECT name FROM ph_rows WHERE id = $1'); return pg_fetch_all(pg_execute($c, 'p', [1])); },
    'pg async' => function ($c) { pg_send_query($c, 'SELECT true; SELECT false'); return [pg_fetch_all(pg_get_result($c)), pg_fetch_all(pg_get_result($c))]; },
    'pg copy' => fn($c) => [pg_copy_to($c, 'ph_rows (id, name)', ','), pg_parameter_status($c, 'server_encoding'), pg_transaction_status($c)],
    'pg drop' => fn($c) => pg_affected_rows(pg_query($c, 'DROP TABLE ph_rows'))] as $name => $use) {
    $c = pg_connect($place, PGSQL_CONNECT_FORCE_NEW);
    try {
        $answer = json_encode(@$use($c));
    } catch (Throwable $e) {
        $answer = 'error ' . explode(':', $e->getMessage())[0];
    }
    echo "$name\t", str_replace("\n", '\n', $answer), "\n";
    pg_close($c);
}
