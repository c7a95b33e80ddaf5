// pgx 5 and lib/pq as programs use them: a line `name<TAB>answer` for each check, an error as its SQLSTATE.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
)

var (
	ctx  = context.Background()
	url  = fmt.Sprintf("postgres://%s@%s:%s/%s?sslmode=disable", os.Getenv("PGUSER"), os.Getenv("PGHOST"), os.Getenv("PGPORT"), os.Getenv("PGDATABASE"))
	long = "SELECT count(*) FROM generate_series(1, 1000000000) AS a(n) CROSS JOIN generate_series(1, 100000) AS b(m) WHERE n % 7 = 8"
)

func failure(err error) string {
	var own *pgconn.PgError
	var other *pq.Error
	switch {
	case errors.As(err, &own):
		return "SQLSTATE " + own.Code
	case errors.As(err, &other):
		return "SQLSTATE " + string(other.Code)
	}
	return "error " + err.Error()
}

func report(name string, value any, err error) {
	if err != nil {
		value = failure(err)
	}
	fmt.Printf("%s\t%s\n", name, strings.ReplaceAll(fmt.Sprintf("%v", value), "\n", "\\n"))
}

func check(name string, use func(c *pgx.Conn) (any, error)) {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		report(name, nil, err)
		return
	}
	defer c.Close(ctx)
	value, err := use(c)
	report(name, value, err)
}

func show(value any) string {
	switch v := value.(type) {
	case time.Time:
		return "time " + v.UTC().Format(time.RFC3339Nano)
	case pgtype.Numeric:
		n, _ := v.Value()
		return fmt.Sprintf("numeric %v", n)
	case [16]byte:
		return fmt.Sprintf("uuid %x", v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = show(v[i])
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprintf("%T %v", value, value)
}

func all(rows pgx.Rows, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil, err
		}
		parts := make([]string, len(values))
		for i, v := range values {
			parts[i] = show(v)
		}
		out = append(out, "("+strings.Join(parts, ", ")+")")
	}
	return strings.Join(out, " "), rows.Err()
}

func one[T any](c *pgx.Conn, query string, args ...any) (any, error) {
	var value T
	err := c.QueryRow(ctx, query, args...).Scan(&value)
	return show(value), err
}

var setup = []string{
	"DROP VIEW IF EXISTS go_view", "DROP TABLE IF EXISTS go_all", "DROP TABLE IF EXISTS go_rows", "DROP TABLE IF EXISTS go_copy",
	"CREATE TABLE go_all (id INT PRIMARY KEY, i2 SMALLINT, i8 BIGINT, f4 REAL, f8 DOUBLE PRECISION, n NUMERIC(12,3), t TEXT, v VARCHAR(10), b BOOLEAN, d DATE, tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, by BYTEA, u UUID, iv INTERVAL, ia INT[], ta TEXT[], na NUMERIC(6,2)[], da DATE[])",
	"CREATE TABLE go_rows (id INT PRIMARY KEY, name TEXT, amount NUMERIC(10,2))",
	"CREATE TABLE go_copy (id INT PRIMARY KEY, i2 SMALLINT, i8 BIGINT, f4 REAL, f8 DOUBLE PRECISION, n NUMERIC(12,3), t TEXT, b BOOLEAN, d DATE, tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, by BYTEA, u UUID, ia INT[], ta TEXT[])",
	"INSERT INTO go_rows SELECT n, 'n' || n, n FROM generate_series(1, 100) AS g(n)",
	"INSERT INTO go_all VALUES (1, 2, 3, 1.5, 2.5, 12.345, 'text', 'var', true, '2024-02-29', '12:34:56', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+02', '\\x0102', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1 mon 2 days 03:04:05', '{1,2}', '{\"a\",NULL}', '{1.50}', '{2024-01-01}'), (2, NULL, NULL, 'NaN', 'Infinity', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
}

func main() {
	if c, err := pgx.Connect(ctx, url); err == nil {
		for _, statement := range setup {
			if _, err := c.Exec(ctx, statement); err != nil {
				report("setup "+statement[:24], nil, err)
			}
		}
		c.Close(ctx)
	}
	pgxTypes()
	pgxModes()
	pgxWrites()
	pgxRest()
	libpq()
}

func pgxTypes() {
	for name, format := range map[string]int16{"text": 0, "binary": 1} {
		columns := []string{"id", "i2", "i8", "f4", "f8", "n", "t", "v", "b", "d", "tm", "ts", "tz", "by", "u", "iv", "ia", "ta", "na", "da"}
		for _, column := range columns {
			check("column "+column+" as "+name, func(c *pgx.Conn) (any, error) {
				return all(c.Query(ctx, "SELECT "+column+" FROM go_all ORDER BY id", pgx.QueryResultFormats{format}))
			})
		}
	}
	check("description", func(c *pgx.Conn) (any, error) {
		d, err := c.Prepare(ctx, "all", "SELECT * FROM go_all WHERE id = $1 AND t = $2 AND ia = $3 AND n > $4 AND u = $5 AND ts < $6")
		if err != nil {
			return nil, err
		}
		var parts []string
		for _, f := range d.Fields {
			parts = append(parts, fmt.Sprintf("%s %d %d %d %v %d", f.Name, f.DataTypeOID, f.DataTypeSize, f.TypeModifier, f.TableOID > 0, f.TableAttributeNumber))
		}
		return fmt.Sprint(d.ParamOIDs, parts), nil
	})
	for _, name := range []string{"int4", "_int4", "text", "numeric", "timestamptz", "go_rows", "_go_rows", "no_such_type"} {
		check("load type "+name, func(c *pgx.Conn) (any, error) {
			t, err := c.LoadType(ctx, name)
			if err != nil {
				return nil, err
			}
			return fmt.Sprintf("%s %T", t.Name, t.Codec), nil
		})
	}
	check("load types", func(c *pgx.Conn) (any, error) {
		types, err := c.LoadTypes(ctx, []string{"go_rows"})
		return len(types), err
	})
	check("json", func(c *pgx.Conn) (any, error) { return one[map[string]any](c, `SELECT '{"a": [1, "x"]}'::json`) })
	check("jsonb", func(c *pgx.Conn) (any, error) { return one[map[string]any](c, `SELECT $1::jsonb`, map[string]any{"a": 1}) })
	check("inet", func(c *pgx.Conn) (any, error) { return one[netip.Prefix](c, `SELECT '10.0.0.0/8'::cidr`) })
	check("scan struct", func(c *pgx.Conn) (any, error) {
		rows, err := c.Query(ctx, "SELECT id, name, amount::float8 AS amount FROM go_rows WHERE id < 3 ORDER BY id")
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowToStructByName[struct {
			ID     int32
			Name   string
			Amount float64
		}])
	})
	check("scan map", func(c *pgx.Conn) (any, error) {
		rows, err := c.Query(ctx, "SELECT id, name, 1 AS one, count(*) OVER () AS n FROM go_rows WHERE id = 1")
		if err != nil {
			return nil, err
		}
		return pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
	})
	check("scan of literal", func(c *pgx.Conn) (any, error) { return one[int32](c, "SELECT 1") })
	check("scan of any", func(c *pgx.Conn) (any, error) { return one[any](c, "SELECT 1") })
	check("scan of sum", func(c *pgx.Conn) (any, error) { return one[any](c, "SELECT sum(id) FROM go_rows") })
	check("scan of sum of bigints", func(c *pgx.Conn) (any, error) { return one[any](c, "SELECT sum(id::bigint) FROM go_rows") })
	check("scan of avg", func(c *pgx.Conn) (any, error) { return one[any](c, "SELECT avg(id) FROM go_rows") })
	check("scan of avg into float", func(c *pgx.Conn) (any, error) { return one[float64](c, "SELECT avg(amount) FROM go_rows") })
	check("scan of composite", func(c *pgx.Conn) (any, error) { return one[any](c, "SELECT ROW(1, 'a')") })
	check("scan of null", func(c *pgx.Conn) (any, error) { return one[*string](c, "SELECT NULL") })
	check("scan of null array", func(c *pgx.Conn) (any, error) { return one[[]pgtype.Int4](c, "SELECT ARRAY[1, NULL]::int[]") })
	check("scan of nested array", func(c *pgx.Conn) (any, error) { return one[[][]int32](c, "SELECT ARRAY[[1, 2], [3, 4]]") })
	check("scan of bits of time", func(c *pgx.Conn) (any, error) { return one[any](c, "SELECT extract(epoch FROM TIMESTAMP '2024-01-01 00:00:01.5')") })
}

func pgxModes() {
	modes := map[string]pgx.QueryExecMode{"cache statement": pgx.QueryExecModeCacheStatement, "cache describe": pgx.QueryExecModeCacheDescribe, "describe exec": pgx.QueryExecModeDescribeExec, "exec": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol}
	day := time.Date(2024, 2, 29, 12, 34, 56, 789000000, time.UTC)
	values := map[string]struct {
		sql string
		arg any
	}{
		"int": {"id = $1", 1}, "int64": {"i8 = $1", int64(3)}, "int16": {"i2 = $1", int16(2)}, "int to smallint": {"i2 = $1", 2}, "float": {"f8 = $1", 2.5}, "float to numeric": {"n > $1", 1.5},
		"string": {"t = $1", "text"}, "varchar": {"v = $1", "var"}, "string to numeric": {"n = $1", "12.345"}, "string to int": {"id = $1", "1"}, "bool": {"b = $1", true}, "date": {"d = $1", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		"string to date": {"d = $1", "2024-02-29"}, "timestamp": {"ts = $1", day}, "timestamptz": {"tz = $1", day.Add(-2 * time.Hour)}, "bytes": {"by = $1", []byte{1, 2}}, "uuid": {"u = $1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		"uuid bytes": {"u = $1", [16]byte{0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11}}, "any of ints": {"id = ANY ($1)", []int32{1, 5}}, "any of int64s": {"i8 = ANY ($1)", []int64{3}},
		"any of strings": {"t = ANY ($1)", []string{"text", "a,b"}}, "not any": {"id <> ALL ($1)", []int32{2}}, "array equals": {"ia = $1", []int32{1, 2}}, "array of texts": {"ta = $1", []*string{pointer("a"), nil}},
		"numeric": {"n = $1", pgtype.Numeric{Int: nil, Valid: false}}, "null": {"$1::int IS NULL AND id = 1", nil}, "interval": {"iv = $1", pgtype.Interval{Months: 1, Days: 2, Microseconds: 11045000000, Valid: true}}, "time": {"tm = $1", pgtype.Time{Microseconds: 45296000000, Valid: true}},
		"limit": {"id IN (SELECT id FROM go_all ORDER BY id LIMIT $1)", 1}, "cast int": {"id = $1::int", 1}, "cast text": {"id::text = $1::text", "1"}, "between": {"d BETWEEN $1 AND $1", "2024-02-29"}, "like": {"t LIKE $1 || '%'", "te"},
		"interval arithmetic": {"ts > $1::timestamp - interval '1 day'", day}, "coalesce": {"coalesce($1, id) = 1", 1}, "case": {"CASE WHEN id = $1 THEN true ELSE false END", 1},
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	for mode, m := range modes {
		for _, name := range names {
			v := values[name]
			check(mode+": "+name, func(c *pgx.Conn) (any, error) {
				return one[int64](c, "SELECT count(*) FROM go_all WHERE "+v.sql, m, v.arg)
			})
		}
		check(mode+": insert of all", func(c *pgx.Conn) (any, error) {
			_, err := c.Exec(ctx, "INSERT INTO go_copy (id, i2, i8, f4, f8, n, t, b, d, tm, ts, tz, by, u, ia, ta) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
				m, 50, 2, 3, 1.5, 2.5, "1.250", "it's", true, day, "12:34:56", day, day, []byte{0, 255}, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", []int32{1}, []string{"a b"})
			if err != nil {
				return nil, err
			}
			value, err := all(c.Query(ctx, "DELETE FROM go_copy WHERE id = 50 RETURNING *"))
			return value, err
		})
		check(mode+": named", func(c *pgx.Conn) (any, error) {
			return all(c.Query(ctx, "SELECT id FROM go_rows WHERE id > @low AND id < @high AND name <> @name ORDER BY id", m, pgx.NamedArgs{"low": 3, "high": 8, "name": "n5"}))
		})
		check(mode+": untyped", func(c *pgx.Conn) (any, error) { return all(c.Query(ctx, "SELECT $1, $2::int, $3::text", m, "x", 1, "y")) })
		check(mode+": repeated", func(c *pgx.Conn) (any, error) {
			sum := 0
			for i := 1; i <= 10; i++ {
				n := 0
				if err := c.QueryRow(ctx, "SELECT id FROM go_rows WHERE id = $1", m, i).Scan(&n); err != nil {
					return nil, err
				}
				sum += n
			}
			return sum, nil
		})
		check(mode+": after alter", func(c *pgx.Conn) (any, error) {
			for _, s := range []string{"DROP TABLE IF EXISTS go_alter", "CREATE TABLE go_alter (id INT PRIMARY KEY)", "INSERT INTO go_alter VALUES (1)"} {
				if _, err := c.Exec(ctx, s); err != nil {
					return nil, err
				}
			}
			all(c.Query(ctx, "SELECT * FROM go_alter", m))
			c.Exec(ctx, "ALTER TABLE go_alter ADD COLUMN b INT")
			a, e1 := all(c.Query(ctx, "SELECT * FROM go_alter", m))
			b, e2 := all(c.Query(ctx, "SELECT * FROM go_alter", m))
			c.Exec(ctx, "DROP TABLE go_alter")
			return fmt.Sprint(a, e1 != nil, b, e2 != nil), nil
		})
	}
}

func pointer[T any](v T) *T { return &v }

func pgxWrites() {
	day := time.Date(2024, 2, 29, 12, 34, 56, 789000000, time.UTC)
	check("copy from", func(c *pgx.Conn) (any, error) {
		n, err := c.CopyFrom(ctx, pgx.Identifier{"go_copy"}, []string{"id", "i2", "i8", "f4", "f8", "n", "t", "b", "d", "tm", "ts", "tz", "by", "u", "ia", "ta"}, pgx.CopyFromRows([][]any{
			{1, int16(2), int64(3), float32(1.5), 2.5, "12.345", "te\txt\n", true, day, pgtype.Time{Microseconds: 1000000, Valid: true}, day, day, []byte{1, 2}, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", []int32{1, 2}, []string{"a", "b,c"}},
			{2, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}}))
		if err != nil {
			return nil, err
		}
		rows, err := all(c.Query(ctx, "SELECT * FROM go_copy ORDER BY id"))
		return fmt.Sprint(n, rows), err
	})
	check("copy from in a schema", func(c *pgx.Conn) (any, error) {
		return c.CopyFrom(ctx, pgx.Identifier{"public", "go_copy"}, []string{"id", "t"}, pgx.CopyFromSlice(3000, func(i int) ([]any, error) { return []any{1000 + i, fmt.Sprint(i)}, nil }))
	})
	check("copy from breaks off", func(c *pgx.Conn) (any, error) {
		_, err := c.CopyFrom(ctx, pgx.Identifier{"go_copy"}, []string{"id", "t"}, pgx.CopyFromSlice(3, func(i int) ([]any, error) {
			if i == 2 {
				return nil, errors.New("stop")
			}
			return []any{9000 + i, "x"}, nil
		}))
		n, _ := one[int64](c, "SELECT count(*) FROM go_copy WHERE id >= 9000")
		return fmt.Sprint(failure(err)[:14], n), nil
	})
	check("copy from of wrong column", func(c *pgx.Conn) (any, error) {
		return c.CopyFrom(ctx, pgx.Identifier{"go_copy"}, []string{"id", "nope"}, pgx.CopyFromRows([][]any{{1, 2}}))
	})
	check("copy to", func(c *pgx.Conn) (any, error) {
		var b strings.Builder
		tag, err := c.PgConn().CopyTo(ctx, &b, "COPY (SELECT id, t FROM go_copy WHERE id < 3 ORDER BY id) TO STDOUT")
		return fmt.Sprint(tag, " ", b.String()), err
	})
	check("batch", func(c *pgx.Conn) (any, error) {
		var b pgx.Batch
		b.Queue("INSERT INTO go_rows VALUES ($1, $2, $3)", 201, "x", 1.5)
		b.Queue("SELECT id, name FROM go_rows WHERE id = $1", 201)
		b.Queue("UPDATE go_rows SET name = $2 WHERE id = $1", 201, "y")
		b.Queue("SELECT name FROM go_rows WHERE id = 201")
		b.Queue("DELETE FROM go_rows WHERE id > 200")
		r := c.SendBatch(ctx, &b)
		t1, e1 := r.Exec()
		q1, e2 := all(r.Query())
		t2, e3 := r.Exec()
		q2, e4 := all(r.Query())
		t3, e5 := r.Exec()
		return fmt.Sprint(t1, q1, t2, q2, t3, errors.Join(e1, e2, e3, e4, e5)), r.Close()
	})
	check("batch that fails", func(c *pgx.Conn) (any, error) {
		var b pgx.Batch
		b.Queue("SELECT 1")
		b.Queue("SELECT 1/0")
		b.Queue("SELECT 2")
		r := c.SendBatch(ctx, &b)
		_, e1 := r.Exec()
		_, e2 := r.Exec()
		_, e3 := r.Exec()
		r.Close()
		n, err := one[int32](c, "SELECT 3")
		return fmt.Sprint(e1, failure(e2), e3 != nil, n), err
	})
	check("batch of a thousand", func(c *pgx.Conn) (any, error) {
		var b pgx.Batch
		sum := 0
		for i := 1; i <= 1000; i++ {
			b.Queue("SELECT id FROM go_rows WHERE id = $1", i%100+1).QueryRow(func(row pgx.Row) error {
				n := 0
				err := row.Scan(&n)
				sum += n
				return err
			})
		}
		err := c.SendBatch(ctx, &b).Close()
		return sum, err
	})
	check("pipeline", func(c *pgx.Conn) (any, error) {
		p := c.PgConn().StartPipeline(ctx)
		p.SendPrepare("p1", "SELECT id FROM go_rows WHERE id = $1", nil)
		p.SendQueryPrepared("p1", [][]byte{[]byte("7")}, nil, nil)
		p.SendDeallocate("p1")
		if err := p.Sync(); err != nil {
			return nil, err
		}
		var parts []string
		for {
			r, err := p.GetResults()
			if r == nil || err != nil {
				break
			}
			if rows, ok := r.(*pgconn.ResultReader); ok {
				read := rows.Read()
				parts = append(parts, fmt.Sprint(len(read.Rows), string(read.Rows[0][0])))
			} else {
				parts = append(parts, fmt.Sprintf("%T", r))
			}
			if _, ok := r.(*pgconn.PipelineSync); ok {
				break
			}
		}
		return parts, p.Close()
	})
	check("transaction", func(c *pgx.Conn) (any, error) {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable})
		if err != nil {
			return nil, err
		}
		var level, mode string
		tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level)
		tx.QueryRow(ctx, "SHOW transaction_read_only").Scan(&mode)
		return level + " " + mode, tx.Commit(ctx)
	})
	check("nested transaction", func(c *pgx.Conn) (any, error) {
		tx, err := c.Begin(ctx)
		if err != nil {
			return nil, err
		}
		inner, err := tx.Begin(ctx)
		if err != nil {
			return nil, err
		}
		_, failed := inner.Exec(ctx, "SELECT 1/0")
		if err := inner.Rollback(ctx); err != nil {
			return nil, err
		}
		n := 0
		err = tx.QueryRow(ctx, "SELECT 5").Scan(&n)
		return fmt.Sprint(failure(failed), n, tx.Commit(ctx)), err
	})
	check("commit of a failed transaction", func(c *pgx.Conn) (any, error) {
		tx, _ := c.Begin(ctx)
		tx.Exec(ctx, "SELECT 1/0")
		return fmt.Sprint(tx.Commit(ctx)), nil
	})
	check("command tags", func(c *pgx.Conn) (any, error) {
		var parts []string
		for _, s := range []string{"INSERT INTO go_rows VALUES (301, 'a', 1), (302, 'b', 2)", "UPDATE go_rows SET name = 'c' WHERE id > 300", "SELECT 1", "DELETE FROM go_rows WHERE id > 300", "BEGIN", "COMMIT", "SET application_name = 'x'", "SHOW application_name"} {
			tag, err := c.Exec(ctx, s)
			parts = append(parts, fmt.Sprint(tag, tag.RowsAffected(), err))
		}
		return parts, nil
	})
	check("several statements", func(c *pgx.Conn) (any, error) {
		results, err := c.PgConn().Exec(ctx, "SELECT 1; SELECT 2, 3; DELETE FROM go_rows WHERE id < 0").ReadAll()
		return len(results), err
	})
}

func pgxRest() {
	check("cancel by context", func(c *pgx.Conn) (any, error) {
		limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := c.Exec(limited, long)
		return fmt.Sprint(err != nil, time.Since(start) < 3*time.Second, c.IsClosed()), nil
	})
	check("cancel request", func(c *pgx.Conn) (any, error) {
		go func() {
			time.Sleep(300 * time.Millisecond)
			c.PgConn().CancelRequest(ctx)
		}()
		_, err := c.Exec(ctx, long)
		n, err2 := one[int32](c, "SELECT 1")
		return fmt.Sprint(failure(err), n), err2
	})
	check("listen and notify", func(c *pgx.Conn) (any, error) {
		if _, err := c.Exec(ctx, "LISTEN go_channel"); err != nil {
			return nil, err
		}
		if _, err := c.Exec(ctx, "SELECT pg_notify('go_channel', 'hello')"); err != nil {
			return nil, err
		}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		n, err := c.WaitForNotification(limited)
		if err != nil {
			return nil, err
		}
		return n.Channel + " " + n.Payload, nil
	})
	check("notices", func(c *pgx.Conn) (any, error) {
		config := c.Config()
		var seen []string
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { seen = append(seen, n.Severity+" "+n.Code) }
		other, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		defer other.Close(ctx)
		_, err = other.Exec(ctx, "DROP TABLE IF EXISTS go_missing")
		return seen, err
	})
	check("error fields", func(c *pgx.Conn) (any, error) {
		_, err := c.Exec(ctx, "SELECT id, nope FROM go_rows")
		var e *pgconn.PgError
		errors.As(err, &e)
		return fmt.Sprint(e.Severity, e.Code, e.Position), nil
	})
	check("parameter status", func(c *pgx.Conn) (any, error) {
		var parts []string
		for _, n := range []string{"client_encoding", "DateStyle", "integer_datetimes", "is_superuser", "standard_conforming_strings", "TimeZone", "default_transaction_read_only", "in_hot_standby"} {
			parts = append(parts, c.PgConn().ParameterStatus(n))
		}
		return parts, nil
	})
	check("runtime parameters", func(c *pgx.Conn) (any, error) {
		config := c.Config()
		config.RuntimeParams = map[string]string{"application_name": "go app", "search_path": "public", "statement_timeout": "1000", "timezone": "Europe/Berlin", "options": "-c extra_float_digits=1"}
		other, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		defer other.Close(ctx)
		return all(other.Query(ctx, "SELECT current_setting('application_name'), current_setting('timezone'), current_setting('extra_float_digits')"))
	})
	check("ping", func(c *pgx.Conn) (any, error) { return nil, c.Ping(ctx) })
	check("cursor", func(c *pgx.Conn) (any, error) {
		tx, _ := c.Begin(ctx)
		defer tx.Rollback(ctx)
		if _, err := tx.Exec(ctx, "DECLARE cur SCROLL CURSOR FOR SELECT id FROM go_rows ORDER BY id"); err != nil {
			return nil, err
		}
		a, e1 := all(tx.Query(ctx, "FETCH FORWARD 2 FROM cur"))
		b, e2 := all(tx.Query(ctx, "FETCH PRIOR FROM cur"))
		return fmt.Sprint(a, b), errors.Join(e1, e2)
	})
	pool, err := pgxpool.New(ctx, url+"&pool_max_conns=5")
	if err == nil {
		done := make(chan error, 40)
		for i := range 40 {
			go func() {
				n := 0
				err := pool.QueryRow(ctx, "SELECT id FROM go_rows WHERE id = $1", i+1).Scan(&n)
				if err == nil && n != i+1 {
					err = fmt.Errorf("got %d", n)
				}
				done <- err
			}()
		}
		for range 40 {
			err = errors.Join(err, <-done)
		}
		pool.Close()
	}
	report("pool", "forty", err)
	for _, attrs := range []string{"read-write", "primary", "prefer-standby", "any", "standby"} {
		c, err := pgx.Connect(ctx, url+"&target_session_attrs="+attrs)
		if err == nil {
			c.Close(ctx)
		}
		report("session attributes "+attrs, err == nil, nil)
	}
	db, err := sql.Open("pgx", url)
	if err == nil {
		var s, u string
		var at time.Time
		var n sql.NullInt64
		err = db.QueryRow("SELECT t, u, tz, i8 FROM go_all WHERE id = $1", 1).Scan(&s, &u, &at, &n)
		report("database/sql of pgx", fmt.Sprint(s, u, at.UTC(), n), err)
		rows, err := db.Query("SELECT id, n, v, t, ts, 1, count(*) OVER () FROM go_all")
		report("database/sql column types of pgx", columnTypes(rows), err)
		db.Close()
	}
}

func columnTypes(rows *sql.Rows) string {
	if rows == nil {
		return ""
	}
	defer rows.Close()
	types, _ := rows.ColumnTypes()
	var parts []string
	for _, t := range types {
		length, has := t.Length()
		precision, scale, decimal := t.DecimalSize()
		parts = append(parts, fmt.Sprint(t.DatabaseTypeName(), " ", t.ScanType(), " ", length, has, " ", precision, scale, decimal))
	}
	return strings.Join(parts, "; ")
}

func libpq() {
	for _, binary := range []string{"no", "yes"} {
		db, err := sql.Open("postgres", url+"&binary_parameters="+binary)
		if err != nil {
			report("pq", nil, err)
			return
		}
		name := func(s string) string { return "pq binary " + binary + ": " + s }
		query := func(title, sql string, args ...any) {
			rows, err := db.Query(sql, args...)
			if err != nil {
				report(name(title), nil, err)
				return
			}
			defer rows.Close()
			columns, _ := rows.Columns()
			var out []string
			for rows.Next() {
				values := make([]any, len(columns))
				for i := range values {
					values[i] = new(any)
				}
				rows.Scan(values...)
				for _, v := range values {
					out = append(out, show(*(v.(*any))))
				}
			}
			report(name(title), out, rows.Err())
		}
		query("all types", "SELECT * FROM go_all ORDER BY id")
		query("literals", "SELECT 1, 1.5, 'x', true, NULL, now() IS NULL, DATE '2024-01-01'")
		query("int", "SELECT name FROM go_rows WHERE id = $1", 3)
		query("string", "SELECT id FROM go_rows WHERE name = $1", "n3")
		query("float", "SELECT id FROM go_all WHERE f8 = $1", 2.5)
		query("bool", "SELECT id FROM go_all WHERE b = $1", true)
		query("time", "SELECT id FROM go_all WHERE ts = $1", time.Date(2024, 2, 29, 12, 34, 56, 789000000, time.UTC))
		query("time with zone", "SELECT id FROM go_all WHERE tz = $1", time.Date(2024, 2, 29, 10, 34, 56, 789000000, time.UTC))
		query("date", "SELECT id FROM go_all WHERE d = $1", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC))
		query("bytes", "SELECT id FROM go_all WHERE by = $1", []byte{1, 2})
		query("int array", "SELECT id FROM go_rows WHERE id = ANY ($1) ORDER BY id", pq.Array([]int64{1, 2}))
		query("text array", "SELECT id FROM go_rows WHERE name = ANY ($1) ORDER BY id", pq.Array([]string{"n1", "n2"}))
		query("null", "SELECT $1::int IS NULL", nil)
		query("limit", "SELECT id FROM go_rows ORDER BY id LIMIT $1", 2)
		query("numeric as text", "SELECT id FROM go_all WHERE n = $1", "12.345")
		query("uuid as text", "SELECT id FROM go_all WHERE u = $1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
		query("error", "SELECT nope FROM go_rows")
		rows, err := db.Query("SELECT id, n, v, t, ts, 1 FROM go_all")
		report(name("column types"), columnTypes(rows), err)
		var scanned []int64
		var texts []sql.NullString
		err = db.QueryRow("SELECT ia, ta FROM go_all WHERE id = 1").Scan(pq.Array(&scanned), pq.Array(&texts))
		report(name("scan of arrays"), fmt.Sprint(scanned, texts), err)
		tx, err := db.Begin()
		if err == nil {
			statement, e := tx.Prepare(pq.CopyIn("go_copy", "id", "t", "n", "d", "b", "by"))
			err = e
			if e == nil {
				for i := range 20 {
					if _, err = statement.Exec(20000+i, "t\t"+fmt.Sprint(i), 1.5, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), true, []byte{1}); err != nil {
						break
					}
				}
				if err == nil {
					_, err = statement.Exec()
				}
				statement.Close()
			}
			tx.Commit()
		}
		query("copied", "SELECT count(*), max(t), min(n) FROM go_copy WHERE id >= 20000")
		report(name("copy in"), "done", err)
		db.Exec("DELETE FROM go_copy WHERE id >= 20000")
		limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		start := time.Now()
		_, err = db.ExecContext(limited, long)
		cancel()
		report(name("cancel by context"), fmt.Sprint(failure(err), time.Since(start) < 3*time.Second), nil)
		prepared, err := db.Prepare("SELECT id + $1 FROM go_rows WHERE id = $2")
		if err == nil {
			n := 0
			err = prepared.QueryRow(10, 5).Scan(&n)
			report(name("prepared"), n, err)
			prepared.Close()
		} else {
			report(name("prepared"), nil, err)
		}
		result, err := db.Exec("UPDATE go_rows SET name = name WHERE id < $1", 11)
		if err == nil {
			n, _ := result.RowsAffected()
			report(name("rows affected"), n, nil)
		} else {
			report(name("rows affected"), nil, err)
		}
		db.Close()
	}
	listener := pq.NewListener(url, time.Second, time.Second, nil)
	// Where LISTEN is refused, this waits until there is a server that takes it.
	listening := make(chan error, 1)
	go func() { listening <- listener.Listen("pq_channel") }()
	select {
	case err := <-listening:
		report("pq listen", "listening", err)
	case <-time.After(2 * time.Second):
		report("pq listen", "waits", nil)
	}
}
