// pgjdbc as programs use it: a line `name<TAB>answer` for each check, an error as its SQLSTATE.
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PGobject;

public final class Jdbc {
    interface Check { Object run(Connection c) throws Exception; }
    interface Use { Object run(PreparedStatement s) throws Exception; }

    static String url;

    static Connection open(String... options) throws SQLException {
        Properties p = new Properties();
        p.setProperty("user", System.getenv("PGUSER"));
        for (String option : options) {
            p.setProperty(option.split("=")[0], option.split("=")[1]);
        }
        return DriverManager.getConnection(url, p);
    }

    static void check(String name, Check check) { check(name, check, new String[0]); }

    static void check(String name, Check check, String... options) {
        Object answer;
        try (Connection c = open(options)) {
            answer = check.run(c);
        } catch (SQLException e) {
            answer = "SQLSTATE " + e.getSQLState() + (e.getSQLState() == null || System.getenv("VERBOSE") != null ? " " + e.getMessage() : "");
        } catch (Throwable e) {
            answer = e.toString();
        }
        System.out.println(name + "\t" + String.valueOf(answer).replace("\n", "\\n"));
    }

    static String text(Object o) throws SQLException {
        if (o == null) return "null";
        if (o instanceof byte[]) return "bytes " + Arrays.toString((byte[]) o);
        if (o instanceof java.sql.Array) return "Array " + Arrays.deepToString((Object[]) ((java.sql.Array) o).getArray());
        return o.getClass().getSimpleName() + " " + o;
    }

    static String all(ResultSet rows, String... columns) throws SQLException {
        StringBuilder b = new StringBuilder();
        int n = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            b.append("(");
            for (int i = 1; i <= (columns.length > 0 ? columns.length : n); i++) {
                b.append(i > 1 ? ", " : "").append(columns.length > 0 ? rows.getString(columns[i - 1]) : rows.getString(i));
            }
            b.append(") ");
        }
        return b.toString().trim();
    }

    static Object one(Connection c, String sql, Use use) throws Exception {
        try (PreparedStatement s = c.prepareStatement(sql)) { return use.run(s); }
    }

    static Object first(PreparedStatement s) throws SQLException {
        try (ResultSet r = s.executeQuery()) { return r.next() ? text(r.getObject(1)) : "no row"; }
    }

    static String scalar(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) { return all(r); }
    }

    static void exec(Connection c, String... sqls) throws SQLException {
        try (Statement s = c.createStatement()) { for (String sql : sqls) s.execute(sql); }
    }

    public static void main(String[] a) throws Exception {
        url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        try (Connection c = open()) {
            exec(c, "DROP VIEW IF EXISTS jd_view", "DROP TABLE IF EXISTS jd_all", "DROP TABLE IF EXISTS jd_keys", "DROP TABLE IF EXISTS jd_rows",
                "CREATE TABLE jd_all (id INT PRIMARY KEY, i2 SMALLINT, i8 BIGINT, f4 REAL, f8 DOUBLE PRECISION, n NUMERIC(12,3), n0 NUMERIC(5), t TEXT NOT NULL DEFAULT 'x', v VARCHAR(10), c CHAR(3), b BOOLEAN, d DATE, tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, by BYTEA, u UUID, ia INT[], ta TEXT[])",
                "CREATE TABLE jd_keys (a INT, b TEXT, w INT, PRIMARY KEY (b, a))",
                "CREATE TABLE jd_rows (id INT PRIMARY KEY, name TEXT, amount NUMERIC(10,2))",
                "CREATE VIEW jd_view AS SELECT id, name FROM jd_rows",
                "INSERT INTO jd_rows SELECT n, 'n' || n, n FROM generate_series(1, 500) AS g(n)",
                "INSERT INTO jd_all VALUES (1, 2, 3, 1.5, 2.5, 12.345, 7, 'text', 'var', 'ch', true, '2024-02-29', '12:34:56', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+02', '\\x0102', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{1,2}', '{\"a\",NULL}'), (2, NULL, NULL, NULL, NULL, NULL, NULL, 'y', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)");
        } catch (SQLException e) {
            System.out.println("setup\t" + e.getMessage().replace("\n", "\\n"));
        }

        // What the database says about itself.
        check("meta product", c -> { DatabaseMetaData m = c.getMetaData(); return m.getDatabaseProductName() + " " + m.getDatabaseMajorVersion() + " " + m.getMaxConnections() + " " + m.getMaxColumnNameLength() + " " + m.getMaxIndexLength() + " " + m.getUserName() + " " + m.isReadOnly() + " " + m.getDefaultTransactionIsolation(); });
        check("meta keywords", c -> c.getMetaData().getSQLKeywords().length() > 100);
        check("meta tables", c -> all(c.getMetaData().getTables(null, "public", "jd%", null), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE", "REMARKS"));
        check("meta tables of a type", c -> all(c.getMetaData().getTables(null, null, "jd%", new String[] {"VIEW"}), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"));
        check("meta system tables", c -> all(c.getMetaData().getTables(null, "pg_catalog", "pg_class", new String[] {"SYSTEM TABLE"}), "TABLE_NAME", "TABLE_TYPE"));
        check("meta system views", c -> all(c.getMetaData().getTables(null, "information_schema", "tables", null), "TABLE_NAME", "TABLE_TYPE"));
        check("meta columns", c -> all(c.getMetaData().getColumns(null, "public", "jd_all", "%"), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "NUM_PREC_RADIX", "NULLABLE", "COLUMN_DEF", "CHAR_OCTET_LENGTH", "ORDINAL_POSITION", "IS_NULLABLE", "IS_AUTOINCREMENT", "IS_GENERATEDCOLUMN", "SQL_DATA_TYPE"));
        check("meta columns of a view", c -> all(c.getMetaData().getColumns(null, null, "jd\\_view", null), "TABLE_NAME", "COLUMN_NAME", "TYPE_NAME"));
        check("meta column by name", c -> all(c.getMetaData().getColumns(null, "public", "jd_rows", "amount"), "COLUMN_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS"));
        check("meta primary keys", c -> all(c.getMetaData().getPrimaryKeys(null, "public", "jd_keys"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
        check("meta best row", c -> all(c.getMetaData().getBestRowIdentifier(null, "public", "jd_keys", DatabaseMetaData.bestRowSession, true), "COLUMN_NAME", "TYPE_NAME", "PSEUDO_COLUMN"));
        check("meta index info", c -> all(c.getMetaData().getIndexInfo(null, "public", "jd_keys", true, true), "NON_UNIQUE", "INDEX_NAME", "TYPE", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC"));
        check("meta imported keys", c -> all(c.getMetaData().getImportedKeys(null, "public", "jd_keys")));
        check("meta exported keys", c -> all(c.getMetaData().getExportedKeys(null, "public", "jd_keys")));
        check("meta cross reference", c -> all(c.getMetaData().getCrossReference(null, null, "jd_keys", null, null, "jd_all")));
        check("meta version columns", c -> all(c.getMetaData().getVersionColumns(null, "public", "jd_keys"), "COLUMN_NAME", "TYPE_NAME"));
        check("meta type info", c -> { Set<String> wanted = Set.of("int2", "int4", "int8", "text", "varchar", "numeric", "bool", "date", "timestamp", "timestamptz", "bytea", "uuid", "float4", "float8", "_int4", "time", "bpchar", "interval"); StringBuilder b = new StringBuilder(); ResultSet r = c.getMetaData().getTypeInfo(); TreeMap<String, String> m = new TreeMap<>(); while (r.next()) if (wanted.contains(r.getString(1))) m.put(r.getString(1), r.getString(2) + "/" + r.getString(3) + "/" + r.getString(4) + "/" + r.getString(7) + "/" + r.getString(8) + "/" + r.getString(12)); return m; });
        check("meta schemas", c -> all(c.getMetaData().getSchemas(null, "p%"), "TABLE_SCHEM", "TABLE_CATALOG"));
        check("meta catalogs", c -> { Set<String> s = new TreeSet<>(); ResultSet r = c.getMetaData().getCatalogs(); while (r.next()) s.add(r.getString(1)); return s.contains("nyala"); });
        check("meta table types", c -> all(c.getMetaData().getTableTypes()));
        check("meta functions", c -> all(c.getMetaData().getFunctions(null, "pg_catalog", "lower"), "FUNCTION_SCHEM", "FUNCTION_NAME", "FUNCTION_TYPE"));
        check("meta function columns", c -> all(c.getMetaData().getFunctionColumns(null, "pg_catalog", "char_length", null), "FUNCTION_NAME", "COLUMN_NAME", "COLUMN_TYPE", "TYPE_NAME", "ORDINAL_POSITION"));
        check("meta procedures", c -> all(c.getMetaData().getProcedures(null, "pg_catalog", "lower")));
        check("meta procedure columns", c -> all(c.getMetaData().getProcedureColumns(null, "public", "%", null)));
        check("meta table privileges", c -> all(c.getMetaData().getTablePrivileges(null, "public", "jd_rows"), "TABLE_NAME", "GRANTEE", "PRIVILEGE", "IS_GRANTABLE"));
        check("meta column privileges", c -> all(c.getMetaData().getColumnPrivileges(null, "public", "jd_rows", "name"), "COLUMN_NAME", "GRANTEE", "PRIVILEGE"));
        check("meta udts", c -> all(c.getMetaData().getUDTs(null, "public", "jd%", null)));
        check("meta client info", c -> all(c.getMetaData().getClientInfoProperties(), "NAME", "MAX_LEN"));
        check("meta functions lists", c -> c.getMetaData().getNumericFunctions().length() + c.getMetaData().getStringFunctions().length());

        // Connections.
        check("schema and catalog", c -> { c.setSchema("public"); return c.getSchema() + " " + c.getCatalog() + " " + c.isValid(2); });
        check("set schema to another", c -> { exec(c, "DROP SCHEMA IF EXISTS jd_schema", "CREATE SCHEMA jd_schema"); c.setSchema("jd_schema"); String s = c.getSchema(); exec(c, "CREATE TABLE inner_t (a INT)"); String t = all(c.getMetaData().getTables(null, "jd_schema", "%", null), "TABLE_NAME"); exec(c, "DROP TABLE jd_schema.inner_t", "DROP SCHEMA jd_schema"); return s + " " + t; });
        check("current schema", c -> c.getSchema() + " " + scalar(c, "SHOW search_path"), "currentSchema=jd_x,public");
        check("read only", c -> { c.setReadOnly(true); exec(c, "INSERT INTO jd_rows VALUES (9001)"); return "written"; });
        check("read only transaction", c -> { c.setReadOnly(true); c.setAutoCommit(false); exec(c, "INSERT INTO jd_rows VALUES (9001)"); return "written"; });
        check("isolation", c -> { c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE); return c.getTransactionIsolation() + " " + scalar(c, "SHOW transaction_isolation"); });
        check("application name", c -> { c.setClientInfo("ApplicationName", "jd app"); return c.getClientInfo("ApplicationName") + " " + scalar(c, "SHOW application_name") + " " + scalar(c, "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"); });
        check("options", c -> scalar(c, "SHOW statement_timeout") + scalar(c, "SHOW extra_float_digits"), "options=-c statement_timeout=1234");
        check("network timeout", c -> { c.setNetworkTimeout(Runnable::run, 5000); return c.getNetworkTimeout() + scalar(c, "SELECT 1"); });
        check("warnings", c -> { try (Statement s = c.createStatement()) { s.execute("DROP TABLE IF EXISTS jd_missing"); SQLWarning w = s.getWarnings(); return w == null ? "none" : w.getSQLState(); } });
        check("backend pid", c -> String.valueOf(((PGConnection) c).getBackendPID()).equals(scalar(c, "SELECT pg_backend_pid()").replaceAll("[()]", "")));
        check("parameter status", c -> ((PGConnection) c).getParameterStatuses().entrySet().stream().filter(e -> Set.of("client_encoding", "DateStyle", "integer_datetimes", "IntervalStyle", "is_superuser", "server_encoding", "session_authorization", "standard_conforming_strings", "TimeZone", "default_transaction_read_only", "in_hot_standby").contains(e.getKey())).sorted(Map.Entry.comparingByKey()).toList());
        check("prefer primary", c -> scalar(c, "SELECT 1"), "targetServerType=primary");
        check("prefer secondary", c -> scalar(c, "SELECT 1"), "targetServerType=preferSecondary");
        check("secondary", c -> scalar(c, "SELECT 1"), "targetServerType=secondary");

        // Types of results.
        for (String mode : new String[] {"text", "binary"}) {
            String[] options = mode.equals("text") ? new String[] {"binaryTransfer=false"} : new String[] {"prepareThreshold=-1"};
            check(mode + " objects", c -> one(c, "SELECT * FROM jd_all ORDER BY id", s -> { StringBuilder b = new StringBuilder(); ResultSet r = s.executeQuery(); ResultSetMetaData m = r.getMetaData(); while (r.next()) for (int i = 1; i <= m.getColumnCount(); i++) b.append(m.getColumnName(i)).append("=").append(text(r.getObject(i))).append("; "); return b; }), options);
            check(mode + " java time", c -> one(c, "SELECT d, tm, ts, tz, u, n FROM jd_all WHERE id = 1", s -> { ResultSet r = s.executeQuery(); r.next(); return r.getObject(1, LocalDate.class) + " " + r.getObject(2, LocalTime.class) + " " + r.getObject(3, LocalDateTime.class) + " " + r.getObject(4, OffsetDateTime.class) + " " + r.getObject(5, UUID.class) + " " + r.getObject(6, BigDecimal.class) + " " + r.getTimestamp(4).toInstant() + " " + r.getDate(1) + " " + r.getTime(2); }), options);
            check(mode + " literals", c -> one(c, "SELECT 1, 1.5, 'x', NULL, true, now() IS NULL, ARRAY[1,2], ARRAY['a'], interval '1 day 2 hours', 1::smallint, 2147483648, 1e10, -1, '1'::\"char\", 1::oid, 'a'::name", s -> { StringBuilder b = new StringBuilder(); ResultSet r = s.executeQuery(); r.next(); for (int i = 1; i <= r.getMetaData().getColumnCount(); i++) b.append(r.getMetaData().getColumnTypeName(i)).append("=").append(text(r.getObject(i))).append("; "); return b; }), options);
            check(mode + " aggregates", c -> one(c, "SELECT count(*), sum(id), avg(id), min(amount), sum(amount), avg(amount), max(name), stddev(id), array_agg(id ORDER BY id) FROM jd_rows WHERE id < 4", s -> { StringBuilder b = new StringBuilder(); ResultSet r = s.executeQuery(); r.next(); for (int i = 1; i <= r.getMetaData().getColumnCount(); i++) b.append(r.getMetaData().getColumnTypeName(i)).append("=").append(text(r.getObject(i))).append("; "); return b; }), options);
            check(mode + " integer arithmetic", c -> one(c, "SELECT id + 1, id * 2, id / 2, id % 2, -id, abs(id), coalesce(id, 0), CASE WHEN id > 0 THEN 1 ELSE 0 END, length(name), d - d, extract(year FROM d), floor(n), round(n), n * 2, power(id, 2), sqrt(id), greatest(id, 1), nullif(id, 0), id::text || 'x', row_number() OVER (), rank() OVER (ORDER BY id), strpos(name, 'n'), i2 + 1, i2 + i2 FROM (SELECT id, name, DATE '2024-01-01' AS d, 1.25::numeric(5,2) AS n, 3::smallint AS i2 FROM jd_rows WHERE id = 1) q", s -> { StringBuilder b = new StringBuilder(); ResultSet r = s.executeQuery(); r.next(); for (int i = 1; i <= r.getMetaData().getColumnCount(); i++) b.append(i).append(":").append(r.getMetaData().getColumnTypeName(i)).append("=").append(text(r.getObject(i))).append("; "); return b; }), options);
        }
        check("result metadata", c -> one(c, "SELECT id, n, v, t, ts, 1 AS one, n * 2 AS twice, count(*) OVER () AS n_all FROM jd_all", s -> { ResultSetMetaData m = s.getMetaData(); StringBuilder b = new StringBuilder(); for (int i = 1; i <= m.getColumnCount(); i++) b.append(m.getColumnLabel(i)).append(" ").append(m.getColumnTypeName(i)).append(" ").append(m.getColumnType(i)).append(" ").append(m.getPrecision(i)).append(" ").append(m.getScale(i)).append(" ").append(m.getColumnDisplaySize(i)).append(" ").append(m.getColumnClassName(i)).append(" ").append(m.getTableName(i)).append(" ").append(m.getSchemaName(i)).append(" ").append(m.isNullable(i)).append(" ").append(m.isAutoIncrement(i)).append(" ").append(m.isSigned(i)).append("; "); return b; }));
        check("base column name", c -> one(c, "SELECT id AS k, name AS label FROM jd_rows", s -> { org.postgresql.PGResultSetMetaData m = (org.postgresql.PGResultSetMetaData) s.getMetaData(); return m.getBaseColumnName(1) + " " + m.getBaseTableName(1) + " " + m.getBaseSchemaName(1) + " " + m.getBaseColumnName(2); }));
        check("parameter metadata", c -> one(c, "SELECT * FROM jd_all WHERE id = ? AND n > ? AND t LIKE ? AND d < ? AND ts > ? AND f8 = ? AND b = ? AND u = ? AND i8 IN (?, ?)", s -> { ParameterMetaData m = s.getParameterMetaData(); StringBuilder b = new StringBuilder(); for (int i = 1; i <= m.getParameterCount(); i++) b.append(m.getParameterTypeName(i)).append(" "); return b; }));
        check("parameter metadata of writes", c -> one(c, "INSERT INTO jd_all (id, n, t, d, ts, u, ia) VALUES (?, ?, ?, ?, ?, ?, ?)", s -> { ParameterMetaData m = s.getParameterMetaData(); StringBuilder b = new StringBuilder(); for (int i = 1; i <= m.getParameterCount(); i++) b.append(m.getParameterTypeName(i)).append(" "); return b; }));
        check("parameter metadata of update", c -> one(c, "UPDATE jd_rows SET amount = amount + ?, name = ? WHERE id = ?", s -> { ParameterMetaData m = s.getParameterMetaData(); StringBuilder b = new StringBuilder(); for (int i = 1; i <= m.getParameterCount(); i++) b.append(m.getParameterTypeName(i)).append(" "); return b; }));

        // Parameters.
        Object[][] values = {
            {"int", 42}, {"long", 42L}, {"short", (short) 4}, {"float", 1.5f}, {"double", 2.5}, {"decimal", new BigDecimal("12.340")}, {"string", "it's"}, {"boolean", true},
            {"local date", LocalDate.of(2024, 2, 29)}, {"local time", LocalTime.of(1, 2, 3)}, {"local date time", LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4000)}, {"offset", OffsetDateTime.of(2024, 2, 29, 1, 2, 3, 0, ZoneOffset.ofHours(2))},
            {"uuid", UUID.fromString("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")}, {"bytes", new byte[] {0, 1, (byte) 255}}, {"date", java.sql.Date.valueOf("2024-02-29")}, {"time", Time.valueOf("01:02:03")}, {"timestamp", Timestamp.valueOf("2024-02-29 01:02:03.5")}, {"interval", new org.postgresql.util.PGInterval("1 day 02:00:00")}};
        for (Object[] value : values) {
            check("parameter " + value[0], c -> one(c, "SELECT ?", s -> { s.setObject(1, value[1]); return first(s); }));
            check("parameter binary " + value[0], c -> one(c, "SELECT ?", s -> { s.setObject(1, value[1]); return first(s); }), "prepareThreshold=-1");
        }
        check("parameters to columns", c -> one(c, "SELECT count(*) FROM jd_all WHERE id = ? AND i2 = ? AND i8 = ? AND f8 = ? AND n = ? AND t = ? AND b = ? AND d = ? AND tm = ? AND ts = ? AND tz = ? AND by = ? AND u = ?", s -> { s.setInt(1, 1); s.setShort(2, (short) 2); s.setLong(3, 3); s.setDouble(4, 2.5); s.setBigDecimal(5, new BigDecimal("12.345")); s.setString(6, "text"); s.setBoolean(7, true); s.setObject(8, LocalDate.of(2024, 2, 29)); s.setObject(9, LocalTime.of(12, 34, 56)); s.setObject(10, LocalDateTime.of(2024, 2, 29, 12, 34, 56, 789000000)); s.setObject(11, OffsetDateTime.parse("2024-02-29T12:34:56.789+02:00")); s.setBytes(12, new byte[] {1, 2}); s.setObject(13, UUID.fromString("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")); return first(s); }));
        check("date and timestamp to columns", c -> one(c, "SELECT count(*) FROM jd_all WHERE d = ? AND tm = ? AND ts = ? AND tz = ?", s -> { s.setDate(1, java.sql.Date.valueOf("2024-02-29")); s.setTime(2, Time.valueOf("12:34:56")); s.setTimestamp(3, Timestamp.valueOf("2024-02-29 12:34:56.789")); s.setTimestamp(4, Timestamp.from(Instant.parse("2024-02-29T10:34:56.789Z"))); return first(s); }));
        check("string to int column", c -> one(c, "SELECT count(*) FROM jd_all WHERE id = ?", s -> { s.setString(1, "1"); return first(s); }));
        check("string to int column unspecified", c -> one(c, "SELECT count(*) FROM jd_all WHERE id = ?", s -> { s.setString(1, "1"); return first(s); }), "stringtype=unspecified");
        check("int to numeric column", c -> one(c, "SELECT count(*) FROM jd_all WHERE n > ?", s -> { s.setInt(1, 1); return first(s); }));
        check("long to int column", c -> one(c, "SELECT count(*) FROM jd_all WHERE id = ?", s -> { s.setLong(1, 1); return first(s); }));
        check("limit and offset", c -> one(c, "SELECT id FROM jd_rows ORDER BY id LIMIT ? OFFSET ?", s -> { s.setInt(1, 2); s.setInt(2, 1); return all(s.executeQuery()); }));
        check("limit long", c -> one(c, "SELECT id FROM jd_rows ORDER BY id LIMIT ?", s -> { s.setLong(1, 2); return all(s.executeQuery()); }));
        check("set null", c -> one(c, "SELECT ?::int IS NULL, ?::text IS NULL", s -> { s.setNull(1, Types.INTEGER); s.setNull(2, Types.VARCHAR); return all(s.executeQuery()); }));
        check("null of each type", c -> one(c, "INSERT INTO jd_all (id, n, t, d, ts, u, by, b) VALUES (?, ?, 'z', ?, ?, ?, ?, ?)", s -> { s.setInt(1, 3); s.setNull(2, Types.NUMERIC); s.setNull(3, Types.DATE); s.setNull(4, Types.TIMESTAMP); s.setNull(5, Types.OTHER); s.setNull(6, Types.BINARY); s.setNull(7, Types.BOOLEAN); int n = s.executeUpdate(); exec(c, "DELETE FROM jd_all WHERE id = 3"); return n; }));
        check("int array parameter", c -> one(c, "SELECT count(*) FROM jd_rows WHERE id = ANY (?)", s -> { s.setArray(1, c.createArrayOf("int4", new Integer[] {1, 2, 3})); return first(s); }));
        check("primitive array parameter", c -> one(c, "SELECT count(*) FROM jd_rows WHERE id = ANY (?)", s -> { s.setObject(1, new int[] {1, 2}); return first(s); }));
        check("text array parameter", c -> one(c, "SELECT count(*) FROM jd_rows WHERE name = ANY (?)", s -> { s.setArray(1, c.createArrayOf("text", new String[] {"n1", "n,2", null})); return first(s); }));
        check("array insert and read", c -> one(c, "INSERT INTO jd_all (id, ia, ta) VALUES (4, ?, ?) RETURNING ia, ta", s -> { s.setArray(1, c.createArrayOf("int4", new Integer[] {5, null})); s.setArray(2, c.createArrayOf("text", new String[] {"a b", "c\"d"})); ResultSet r = s.executeQuery(); r.next(); String t = text(r.getArray(1)) + text(r.getArray(2)); ResultSet inner = r.getArray(1).getResultSet(); t += all(inner); exec(c, "DELETE FROM jd_all WHERE id = 4"); return t; }));
        check("numeric array", c -> one(c, "SELECT ?", s -> { s.setArray(1, c.createArrayOf("numeric", new BigDecimal[] {new BigDecimal("1.50")})); return first(s); }));
        check("json parameter", c -> one(c, "SELECT ?", s -> { PGobject o = new PGobject(); o.setType("jsonb"); o.setValue("{\"a\": 1}"); s.setObject(1, o); return first(s); }));
        check("stream parameter", c -> one(c, "SELECT ?::text, ?::bytea", s -> { s.setCharacterStream(1, new StringReader("abc")); s.setBinaryStream(2, new java.io.ByteArrayInputStream(new byte[] {1})); return all(s.executeQuery()); }));
        check("many parameters", c -> one(c, "SELECT count(*) FROM jd_rows WHERE id IN (" + "?,".repeat(999) + "?)", s -> { for (int i = 1; i <= 1000; i++) s.setInt(i, i); return first(s); }));
        check("one statement many times", c -> one(c, "SELECT name FROM jd_rows WHERE id = ?", s -> { String t = ""; for (int i = 1; i <= 12; i++) { s.setInt(1, i); t += first(s); } return t; }));
        check("one statement other types", c -> one(c, "SELECT ?", s -> { String t = ""; for (int i = 0; i < 8; i++) { s.setInt(1, i); t += first(s); } s.setString(1, "x"); t += first(s); s.setBigDecimal(1, BigDecimal.ONE); return t + first(s); }));

        // Writes.
        check("update counts", c -> { try (Statement s = c.createStatement()) { int i = s.executeUpdate("INSERT INTO jd_keys VALUES (1, 'a', 1), (2, 'b', 2)"); int u = s.executeUpdate("UPDATE jd_keys SET w = 5 WHERE a = 1"); int d = s.executeUpdate("DELETE FROM jd_keys"); long l = s.executeLargeUpdate("DELETE FROM jd_keys"); return i + " " + u + " " + d + " " + l; } });
        check("batch of statements", c -> { try (Statement s = c.createStatement()) { s.addBatch("INSERT INTO jd_keys VALUES (1, 'a', 1)"); s.addBatch("INSERT INTO jd_keys VALUES (2, 'b', 2)"); s.addBatch("DELETE FROM jd_keys"); return Arrays.toString(s.executeBatch()); } });
        for (String rewrite : new String[] {"false", "true"}) {
            check("batch of parameters, rewritten " + rewrite, c -> one(c, "INSERT INTO jd_keys (a, b, w) VALUES (?, ?, ?)", s -> { for (int i = 0; i < 300; i++) { s.setInt(1, i); s.setString(2, "b" + i); s.setInt(3, i); s.addBatch(); } int[] n = s.executeBatch(); String t = n.length + " " + n[0] + " " + scalar(c, "SELECT count(*), sum(w) FROM jd_keys"); exec(c, "DELETE FROM jd_keys"); return t; }), "reWriteBatchedInserts=" + rewrite);
        }
        check("batch that fails", c -> { c.setAutoCommit(false); try (PreparedStatement s = c.prepareStatement("INSERT INTO jd_rows (id, amount) VALUES (?, ?)")) { for (int i = 0; i < 3; i++) { s.setInt(1, 7000 + i); s.setBigDecimal(2, new BigDecimal(i == 1 ? "99999999999" : "1")); s.addBatch(); } s.executeBatch(); return "done"; } catch (BatchUpdateException e) { c.rollback(); return e.getSQLState() + " " + Arrays.toString(e.getUpdateCounts()) + scalar(c, "SELECT count(*) FROM jd_rows WHERE id > 7000"); } finally { c.setAutoCommit(true); exec(c, "DELETE FROM jd_rows WHERE id >= 7000"); } });
        check("generated keys", c -> { try (PreparedStatement s = c.prepareStatement("INSERT INTO jd_rows (id, name) VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS)) { s.setInt(1, 8001); s.setString(2, "g"); int n = s.executeUpdate(); String t = n + all(s.getGeneratedKeys()); exec(c, "DELETE FROM jd_rows WHERE id = 8001"); return t; } });
        check("generated keys by column", c -> { try (PreparedStatement s = c.prepareStatement("INSERT INTO jd_rows (id, name) VALUES (8002, 'h')", new String[] {"id"})) { s.executeUpdate(); ResultSet r = s.getGeneratedKeys(); String t = r.getMetaData().getColumnName(1) + all(r); exec(c, "DELETE FROM jd_rows WHERE id = 8002"); return t; } });
        check("generated keys of a batch", c -> { try (PreparedStatement s = c.prepareStatement("INSERT INTO jd_rows (id, name) VALUES (?, ?)", new String[] {"id"})) { for (int i = 0; i < 5; i++) { s.setInt(1, 8100 + i); s.setString(2, "g"); s.addBatch(); } s.executeBatch(); String t = all(s.getGeneratedKeys()); exec(c, "DELETE FROM jd_rows WHERE id >= 8100"); return t; } });
        check("generated keys of update", c -> { try (Statement s = c.createStatement()) { s.executeUpdate("UPDATE jd_rows SET name = 'n1' WHERE id = 1", new String[] {"id", "name"}); return all(s.getGeneratedKeys()); } });
        check("returning as a query", c -> { try (Statement s = c.createStatement()) { String t = all(s.executeQuery("INSERT INTO jd_rows (id, name) VALUES (8003, 'r') RETURNING id, name, amount")); return t + all(s.executeQuery("DELETE FROM jd_rows WHERE id = 8003 RETURNING *")); } });
        check("on conflict", c -> one(c, "INSERT INTO jd_rows (id, name) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name RETURNING name", s -> { s.setInt(1, 1); s.setString(2, "n1"); return all(s.executeQuery()); }));
        check("on conflict nothing", c -> { try (Statement s = c.createStatement()) { return s.executeUpdate("INSERT INTO jd_rows (id) VALUES (1) ON CONFLICT DO NOTHING"); } });
        check("update by a subquery", c -> { try (Statement s = c.createStatement()) { return s.executeUpdate("UPDATE jd_rows SET name = name WHERE id IN (SELECT id FROM jd_rows WHERE id < 4)"); } });
        check("duplicate key", c -> { try (Statement s = c.createStatement()) { s.executeUpdate("INSERT INTO jd_rows (id, name, amount) VALUES (2, 'n2', 2)"); return "written"; } });
        check("error fields", c -> { try { exec(c, "INSERT INTO jd_all (id, t) VALUES (77, NULL)"); return "written"; } catch (org.postgresql.util.PSQLException e) { org.postgresql.util.ServerErrorMessage m = e.getServerErrorMessage(); return m.getSQLState() + " " + m.getTable() + " " + m.getColumn() + " " + m.getSchema(); } });

        // Result sets.
        check("fetch size", c -> { c.setAutoCommit(false); try (Statement s = c.createStatement()) { s.setFetchSize(7); ResultSet r = s.executeQuery("SELECT id FROM jd_rows ORDER BY id"); long n = 0; while (r.next()) n += r.getInt(1); return n; } });
        check("fetch size, two at once", c -> { c.setAutoCommit(false); try (Statement s = c.createStatement(); Statement t = c.createStatement()) { s.setFetchSize(3); t.setFetchSize(5); ResultSet r = s.executeQuery("SELECT id FROM jd_rows ORDER BY id"), q = t.executeQuery("SELECT id FROM jd_rows ORDER BY id DESC"); long n = 0; while (r.next() && q.next()) n += (long) r.getInt(1) * q.getInt(1); return n; } });
        check("fetch size and writes", c -> { c.setAutoCommit(false); try (Statement s = c.createStatement(); PreparedStatement w = c.prepareStatement("UPDATE jd_rows SET amount = amount WHERE id = ?")) { s.setFetchSize(10); ResultSet r = s.executeQuery("SELECT id FROM jd_rows WHERE id <= 40 ORDER BY id"); int n = 0; while (r.next()) { w.setInt(1, r.getInt(1)); n += w.executeUpdate(); } c.commit(); return n; } });
        check("fetch size after commit", c -> { c.setAutoCommit(false); try (Statement s = c.createStatement()) { s.setFetchSize(3); ResultSet r = s.executeQuery("SELECT id FROM jd_rows ORDER BY id"); r.next(); c.commit(); int n = 0; while (r.next()) n++; return n; } });
        check("holdable", c -> { c.setAutoCommit(false); try (Statement s = c.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY, ResultSet.HOLD_CURSORS_OVER_COMMIT)) { s.setFetchSize(3); ResultSet r = s.executeQuery("SELECT id FROM jd_rows ORDER BY id"); r.next(); c.commit(); int n = 0; while (r.next()) n++; return n; } });
        check("adaptive fetch", c -> { c.setAutoCommit(false); try (Statement s = c.createStatement()) { ResultSet r = s.executeQuery("SELECT id FROM jd_rows ORDER BY id"); int n = 0; while (r.next()) n++; return n; } }, "adaptiveFetch=true", "defaultRowFetchSize=5", "maxResultBuffer=1M");
        check("max rows", c -> { try (Statement s = c.createStatement()) { s.setMaxRows(3); return all(s.executeQuery("SELECT id FROM jd_rows ORDER BY id")); } });
        check("scrollable", c -> { try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY)) { ResultSet r = s.executeQuery("SELECT id FROM jd_rows ORDER BY id LIMIT 5"); r.last(); int last = r.getInt(1); r.first(); r.absolute(3); r.relative(-1); int two = r.getInt(1); r.previous(); return last + " " + two + " " + r.getInt(1) + " " + r.getRow(); } });
        check("updatable", c -> { try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) { ResultSet r = s.executeQuery("SELECT id, name, amount FROM jd_rows WHERE id = 5"); r.next(); r.updateString("name", "up"); r.updateRow(); r.moveToInsertRow(); r.updateInt(1, 8200); r.updateString(2, "ins"); r.insertRow(); r.moveToCurrentRow(); String t = scalar(c, "SELECT name FROM jd_rows WHERE id IN (5, 8200) ORDER BY id"); exec(c, "DELETE FROM jd_rows WHERE id = 8200", "UPDATE jd_rows SET name = 'n5' WHERE id = 5"); return t; } });
        check("updatable delete", c -> { exec(c, "INSERT INTO jd_rows (id) VALUES (8300)"); try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_SENSITIVE, ResultSet.CONCUR_UPDATABLE)) { ResultSet r = s.executeQuery("SELECT * FROM jd_rows WHERE id = 8300"); r.next(); r.refreshRow(); r.deleteRow(); return scalar(c, "SELECT count(*) FROM jd_rows WHERE id = 8300"); } });
        check("refcursor style", c -> { c.setAutoCommit(false); exec(c, "DECLARE cur CURSOR FOR SELECT id FROM jd_rows ORDER BY id"); return scalar(c, "FETCH FORWARD 2 FROM cur") + scalar(c, "FETCH ALL FROM cur").length(); });
        check("several results", c -> { try (Statement s = c.createStatement()) { StringBuilder b = new StringBuilder(); boolean rows = s.execute("SELECT 1; DELETE FROM jd_keys WHERE a = -1; SELECT 2, 3"); while (true) { if (rows) b.append(all(s.getResultSet())); else if (s.getUpdateCount() == -1) break; else b.append("n=").append(s.getUpdateCount()); rows = s.getMoreResults(); } return b; } });
        check("simple mode", c -> one(c, "SELECT id, name FROM jd_rows WHERE id = ? AND name = ? AND amount < ?", s -> { s.setInt(1, 1); s.setString(2, "n1"); s.setBigDecimal(3, new BigDecimal("1.5")); return all(s.executeQuery()); }), "preferQueryMode=simple");
        check("simple mode types", c -> one(c, "SELECT ?, ?, ?, ?", s -> { s.setObject(1, LocalDate.of(2024, 1, 1)); s.setObject(2, UUID.fromString("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")); s.setBytes(3, new byte[] {1}); s.setInt(4, -5); return all(s.executeQuery()); }), "preferQueryMode=simple");
        check("extended for all", c -> { exec(c, "SET application_name = 'x'"); return scalar(c, "SHOW application_name"); }, "preferQueryMode=extended");
        check("cached everything", c -> { String t = ""; for (int i = 0; i < 8; i++) t += scalar(c, "SELECT id FROM jd_rows WHERE id < 3 ORDER BY id"); return t; }, "preferQueryMode=extendedCacheEverything");
        check("escapes", c -> scalar(c, "SELECT {fn ucase('a')}, {d '2024-01-02'}, {ts '2024-01-02 03:04:05'}, {fn concat('a', 'b')}, {fn timestampadd(SQL_TSI_DAY, 1, {ts '2024-01-02 03:04:05'})}, {fn length('abc')}"));
        check("call", c -> { try (CallableStatement s = c.prepareCall("{? = call upper(?)}")) { s.registerOutParameter(1, Types.VARCHAR); s.setString(2, "abc"); s.execute(); return s.getString(1); } });
        check("call of no function", c -> { try (CallableStatement s = c.prepareCall("{call no_such(?)}")) { s.setInt(1, 1); s.execute(); return "done"; } });
        check("question mark operator", c -> one(c, "SELECT 'a??b', id FROM jd_rows WHERE name = ? -- ?\n /* ? */", s -> { s.setString(1, "n1"); return all(s.executeQuery()); }));

        // Transactions.
        check("commit and rollback", c -> { c.setAutoCommit(false); exec(c, "INSERT INTO jd_keys VALUES (1, 'a', 1)"); c.commit(); exec(c, "DELETE FROM jd_keys"); c.commit(); return scalar(c, "SELECT count(*) FROM jd_keys"); });
        check("savepoint after an error", c -> { c.setAutoCommit(false); Savepoint p = c.setSavepoint("p"); try { exec(c, "SELECT 1/0"); } catch (SQLException e) { c.rollback(p); } String t = scalar(c, "SELECT 1"); c.releaseSavepoint(p); c.commit(); return t; });
        check("autosave", c -> { c.setAutoCommit(false); try { exec(c, "SELECT 1/0"); } catch (SQLException e) { } return scalar(c, "SELECT 1"); }, "autosave=always");
        check("conservative autosave", c -> { c.setAutoCommit(false); exec(c, "SELECT 1"); try { exec(c, "SELECT nope"); } catch (SQLException e) { } return scalar(c, "SELECT 1"); }, "autosave=conservative");
        check("failed transaction", c -> { c.setAutoCommit(false); try { exec(c, "SELECT 1/0"); } catch (SQLException e) { } try { scalar(c, "SELECT 1"); return "went on"; } catch (SQLException e) { c.rollback(); return e.getSQLState() + scalar(c, "SELECT 1"); } });
        check("plan after alter", c -> { exec(c, "DROP TABLE IF EXISTS jd_alter", "CREATE TABLE jd_alter (id INT PRIMARY KEY)", "INSERT INTO jd_alter VALUES (1)"); try (PreparedStatement s = c.prepareStatement("SELECT * FROM jd_alter")) { for (int i = 0; i < 7; i++) all(s.executeQuery()); exec(c, "ALTER TABLE jd_alter ADD COLUMN b INT"); ResultSet r = s.executeQuery(); String t = r.getMetaData().getColumnCount() + all(r); exec(c, "DROP TABLE jd_alter"); return t; } });

        // Ends.
        String longQuery = "SELECT count(*) FROM generate_series(1, 1000000000) AS a(n) CROSS JOIN generate_series(1, 100000) AS b(m) WHERE n % 7 = 8";
        check("query timeout", c -> { try (Statement s = c.createStatement()) { s.setQueryTimeout(1); long t = System.nanoTime(); try { s.executeQuery(longQuery); return "ended"; } catch (SQLException e) { return e.getSQLState() + " " + (System.nanoTime() - t < 3_000_000_000L) + scalar(c, "SELECT 1"); } } });
        check("statement timeout", c -> { exec(c, "SET statement_timeout = '500ms'"); try { scalar(c, longQuery); return "ended"; } catch (SQLException e) { return e.getSQLState() + scalar(c, "SELECT 1"); } });
        check("cancel from a thread", c -> { try (Statement s = c.createStatement()) { Thread t = new Thread(() -> { try { Thread.sleep(300); s.cancel(); } catch (Exception e) { } }); t.start(); try { s.executeQuery(longQuery); return "ended"; } catch (SQLException e) { t.join(); return e.getSQLState() + scalar(c, "SELECT 1"); } } });
        check("abort", c -> { c.abort(Runnable::run); return c.isClosed(); });
        check("cancel by backend", c -> { int pid = ((PGConnection) c).getBackendPID(); Thread t = new Thread(() -> { try (Connection d = open()) { Thread.sleep(400); scalar(d, "SELECT pg_cancel_backend(" + pid + ")"); } catch (Exception e) { } }); t.start(); try { exec(c, "SET statement_timeout = '3s'"); long start = System.nanoTime(); scalar(c, longQuery); return "ended"; } catch (SQLException e) { t.join(); return e.getSQLState() + " " + e.getMessage().contains("user request"); } });

        // COPY and notifications.
        check("copy in and out", c -> { CopyManager m = new CopyManager((org.postgresql.core.BaseConnection) c); long n = m.copyIn("COPY jd_keys FROM STDIN (FORMAT csv)", new StringReader("1,a,10\n2,b,20\n")); StringWriter w = new StringWriter(); long o = m.copyOut("COPY (SELECT * FROM jd_keys ORDER BY a) TO STDOUT (FORMAT csv, HEADER)", w); exec(c, "DELETE FROM jd_keys"); return n + " " + o + " " + w; });
        check("copy in binary out", c -> { CopyManager m = new CopyManager((org.postgresql.core.BaseConnection) c); java.io.ByteArrayOutputStream w = new java.io.ByteArrayOutputStream(); long o = m.copyOut("COPY (SELECT 1::int, 'a'::text) TO STDOUT (FORMAT binary)", w); return o + " " + Arrays.toString(w.toByteArray()); });
        check("copy cancelled", c -> { CopyManager m = new CopyManager((org.postgresql.core.BaseConnection) c); org.postgresql.copy.CopyIn in = m.copyIn("COPY jd_keys FROM STDIN"); in.writeToCopy("5\te\t5\n".getBytes(), 0, 6); in.cancelCopy(); return scalar(c, "SELECT count(*) FROM jd_keys"); });
        check("copy of wrong rows", c -> { CopyManager m = new CopyManager((org.postgresql.core.BaseConnection) c); try { m.copyIn("COPY jd_keys FROM STDIN", new StringReader("x\ta\t1\n")); return "written"; } catch (SQLException e) { return e.getSQLState() + scalar(c, "SELECT count(*) FROM jd_keys"); } });
        check("notifications", c -> { exec(c, "LISTEN jd_channel", "NOTIFY jd_channel, 'hello'"); org.postgresql.PGNotification[] n = ((PGConnection) c).getNotifications(1000); return n == null || n.length == 0 ? "none" : n[0].getName() + " " + n[0].getParameter(); });
        check("escape literal", c -> ((PGConnection) c).escapeIdentifier("a\"b") + ((PGConnection) c).escapeLiteral("it's"));
        check("large text", c -> one(c, "SELECT length(?)", s -> { s.setString(1, "x".repeat(2_000_000)); return first(s); }));
        check("unicode", c -> one(c, "SELECT ?, length(?), upper(?)", s -> { for (int i = 1; i <= 3; i++) s.setString(i, "äé漢😀"); return all(s.executeQuery()); }));
        check("zero byte", c -> one(c, "SELECT ?::text", s -> { s.setString(1, "a\u0000b"); return first(s); }));
    }
}
