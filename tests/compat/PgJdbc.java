import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;

/**
 * pgjdbc 42.7 against a server that has the Star Schema Benchmark tables in schema `public`.
 *
 * <p>Where the server is comes from PGHOST, PGPORT, PGUSER and PGDATABASE. Prints one line for each check
 * and exits with 1 if any failed.
 */
public final class PgJdbc {
    private static final String LONG =
            "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(n) WHERE n % 7 = 8";

    private interface Check {
        void run() throws Exception;
    }

    private interface Work {
        void run() throws SQLException;
    }

    private final Map<String, Check> checks = new LinkedHashMap<>();

    public static void main(String[] args) {
        System.exit(new PgJdbc().runAll());
    }

    private PgJdbc() {
        checks.put("connecting", this::connecting);
        checks.put("several statements in one text", this::severalStatements);
        checks.put("types by getter", this::types);
        checks.put("parameters of every common type", this::parameters);
        checks.put("NULL parameters and results", this::nulls);
        checks.put("prepared statements run in binary after a while", this::binaryTransfer);
        checks.put("simple query mode", this::simpleMode);
        checks.put("fetch size streams through a suspended portal", this::fetchSize);
        checks.put("errors carry SQLSTATE", this::errors);
        checks.put("transactions and savepoints", this::transactions);
        checks.put("cancel within 2 s", this::cancel);
        checks.put("query timeout", this::queryTimeout);
        checks.put("metadata: tables, columns, schemas", this::metaData);
        checks.put("metadata: keys and indexes", this::keys);
        checks.put("metadata of results and parameters", this::descriptions);
        checks.put("one connection after another", this::manyConnections);
    }

    private int runAll() {
        int failed = 0;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            try {
                check.getValue().run();
                System.out.println("ok    " + check.getKey());
            } catch (Throwable error) {
                failed++;
                System.out.println("FAIL  " + check.getKey());
                error.printStackTrace(System.out);
            }
        }
        System.out.println((checks.size() - failed) + " of " + checks.size() + " checks passed");
        return failed == 0 ? 0 : 1;
    }

    private static String env(String name, String fallback) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? fallback : value;
    }

    private static Connection connect(String... options) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", env("PGUSER", "compat"));
        properties.setProperty("connectTimeout", "10");
        for (String option : options) {
            int split = option.indexOf('=');
            properties.setProperty(option.substring(0, split), option.substring(split + 1));
        }
        String host = env("PGHOST", "127.0.0.1") + ":" + env("PGPORT", "5433");
        return DriverManager.getConnection("jdbc:postgresql://" + host + "/" + env("PGDATABASE", "nyala"), properties);
    }

    private static void equal(Object found, Object expected) {
        if (found == null ? expected != null : !found.equals(expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    private static void holds(boolean condition, String message) {
        if (!condition) {
            throw new AssertionError(message);
        }
    }

    private static String stateOf(Work work) {
        try {
            work.run();
        } catch (SQLException error) {
            return error.getSQLState();
        }
        return null;
    }

    private static long count(Connection connection, String query) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(query)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    private void connecting() throws SQLException {
        try (Connection connection = connect("ApplicationName=compat")) {
            equal(connection.getMetaData().getDatabaseMajorVersion(), 15);
            equal(connection.getSchema(), "public");
            equal(connection.getTransactionIsolation(), Connection.TRANSACTION_READ_COMMITTED);
            holds(connection.isValid(5), "not valid");
            equal(count(connection, "SELECT 1"), 1L);
        }
    }

    private void severalStatements() throws SQLException {
        try (Connection connection = connect(); Statement statement = connection.createStatement()) {
            holds(statement.execute("SELECT 1; SELECT 2"), "no rows");
            holds(statement.getMoreResults(), "one result only");
            ResultSet rows = statement.getResultSet();
            rows.next();
            equal(rows.getInt(1), 2);
            holds(!statement.execute(""), "rows of nothing");
        }
    }

    private void types() throws SQLException {
        String query = "SELECT true, 1::smallint, 2::int, 3::bigint, 1.5::real, 0.1::double precision,"
                + " 12.50::decimal(10,2), 'a'::text, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:34:56.789'";
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(query)) {
            rows.next();
            equal(rows.getBoolean(1), true);
            equal(rows.getShort(2), (short) 1);
            equal(rows.getInt(3), 2);
            equal(rows.getLong(4), 3L);
            equal(rows.getFloat(5), 1.5f);
            equal(rows.getDouble(6), 0.1);
            equal(rows.getBigDecimal(7), new BigDecimal("12.50"));
            equal(rows.getString(8), "a");
            equal(rows.getDate(9), Date.valueOf("2024-02-29"));
            equal(rows.getTimestamp(10), Timestamp.valueOf("2024-02-29 12:34:56.789"));
        }
    }

    private static void setAll(PreparedStatement statement) throws SQLException {
        statement.setBoolean(1, true);
        statement.setShort(2, (short) 1);
        statement.setInt(3, 2);
        statement.setLong(4, 3L);
        statement.setDouble(5, 0.1);
        statement.setBigDecimal(6, new BigDecimal("12.50"));
        statement.setString(7, "o'k");
        statement.setDate(8, Date.valueOf("2024-02-29"));
        statement.setTimestamp(9, Timestamp.valueOf("2024-02-29 12:34:56.789"));
        statement.setBytes(10, new byte[] {0, -1});
    }

    private static void checkAll(ResultSet rows) throws SQLException {
        rows.next();
        equal(rows.getBoolean(1), true);
        equal(rows.getShort(2), (short) 1);
        equal(rows.getInt(3), 2);
        equal(rows.getLong(4), 3L);
        equal(rows.getDouble(5), 0.1);
        equal(rows.getBigDecimal(6), new BigDecimal("12.50"));
        equal(rows.getString(7), "o'k");
        equal(rows.getDate(8), Date.valueOf("2024-02-29"));
        equal(rows.getTimestamp(9), Timestamp.valueOf("2024-02-29 12:34:56.789"));
        equal(rows.getBytes(10).length, 2);
    }

    private static final String ALL =
            "SELECT ?::boolean, ?::smallint, ?::int, ?::bigint, ?::double precision, ?::decimal(10,2), ?::text,"
            + " ?::date, ?::timestamp, ?::bytea";

    private void parameters() throws SQLException {
        try (Connection connection = connect(); PreparedStatement statement = connection.prepareStatement(ALL)) {
            setAll(statement);
            try (ResultSet rows = statement.executeQuery()) {
                checkAll(rows);
            }
        }
    }

    private void nulls() throws SQLException {
        try (Connection connection = connect();
                PreparedStatement statement = connection.prepareStatement("SELECT ?::int, ?::text, count(*) FROM dates WHERE d_year = ?")) {
            statement.setNull(1, Types.INTEGER);
            statement.setNull(2, Types.VARCHAR);
            statement.setNull(3, Types.INTEGER);
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                equal(rows.getObject(1), null);
                equal(rows.getString(2), null);
                equal(rows.getLong(3), 0L);
            }
        }
    }

    private void binaryTransfer() throws SQLException {
        try (Connection connection = connect("prepareThreshold=1", "binaryTransferEnable=NUMERIC");
                PreparedStatement statement = connection.prepareStatement(ALL)) {
            for (int i = 0; i < 8; i++) {
                setAll(statement);
                try (ResultSet rows = statement.executeQuery()) {
                    checkAll(rows);
                }
            }
        }
        try (Connection connection = connect("prepareThreshold=-1");
                PreparedStatement statement = connection.prepareStatement("SELECT d_datekey, d_year FROM dates WHERE d_year = ?")) {
            for (int year = 1992; year < 1999; year++) {
                statement.setInt(1, year);
                try (ResultSet rows = statement.executeQuery()) {
                    holds(rows.next(), "no rows");
                    equal(rows.getInt(2), year);
                }
            }
        }
    }

    private void simpleMode() throws SQLException {
        try (Connection connection = connect("preferQueryMode=simple");
                PreparedStatement statement = connection.prepareStatement("SELECT ?::int + 1, ?::text")) {
            statement.setInt(1, 41);
            statement.setString(2, "a");
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                equal(rows.getInt(1), 42);
            }
        }
    }

    private void fetchSize() throws SQLException {
        try (Connection connection = connect()) {
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(100);
                int seen = 0;
                try (ResultSet rows = statement.executeQuery("SELECT lo_orderkey, lo_revenue FROM lineorder")) {
                    while (seen < 5000 && rows.next()) {
                        seen++;
                    }
                }
                equal(seen, 5000);
            }
            connection.commit();
            equal(count(connection, "SELECT 1"), 1L);
            long expected = count(connection, "SELECT count(*) FROM dates");
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(7);
                long seen = 0;
                try (ResultSet rows = statement.executeQuery("SELECT d_datekey FROM dates")) {
                    while (rows.next()) {
                        seen++;
                    }
                }
                equal(seen, expected);
            }
            connection.rollback();
        }
    }

    private void errors() throws SQLException {
        try (Connection connection = connect(); Statement statement = connection.createStatement()) {
            equal(stateOf(() -> statement.executeQuery("SELECT * FROM no_such_table")), "42P01");
            equal(stateOf(() -> statement.executeQuery("SELECT no_such_column FROM dates")), "42703");
            equal(stateOf(() -> statement.executeQuery("SELEC 1")), "42601");
            equal(count(connection, "SELECT 1"), 1L);
        }
    }

    private void transactions() throws SQLException {
        try (Connection connection = connect(); Statement statement = connection.createStatement()) {
            connection.setAutoCommit(false);
            connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            connection.setReadOnly(true);
            equal(count(connection, "SELECT 1"), 1L);
            var savepoint = connection.setSavepoint("before");
            equal(stateOf(() -> statement.executeQuery("SELECT * FROM no_such_table")), "42P01");
            equal(stateOf(() -> statement.executeQuery("SELECT 1")), "25P02");
            connection.rollback(savepoint);
            equal(count(connection, "SELECT 2"), 2L);
            connection.releaseSavepoint(savepoint);
            connection.commit();
            connection.setAutoCommit(true);
        }
    }

    private void cancel() throws Exception {
        try (Connection connection = connect(); Statement statement = connection.createStatement()) {
            long[] cancelled = new long[1];
            Thread thread = new Thread(() -> {
                try {
                    Thread.sleep(500);
                    cancelled[0] = System.nanoTime();
                    statement.cancel();
                } catch (Exception error) {
                    error.printStackTrace(System.out);
                }
            });
            thread.start();
            equal(stateOf(() -> statement.executeQuery(LONG)), "57014");
            long took = (System.nanoTime() - cancelled[0]) / 1_000_000;
            thread.join();
            holds(took < 2000, "took " + took + " ms");
            equal(count(connection, "SELECT 1"), 1L);
        }
    }

    private void queryTimeout() throws SQLException {
        try (Connection connection = connect(); Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            equal(stateOf(() -> statement.executeQuery(LONG)), "57014");
        }
    }

    private void metaData() throws SQLException {
        try (Connection connection = connect()) {
            Set<String> tables = new HashSet<>();
            try (ResultSet rows = connection.getMetaData().getTables(null, "public", "%", new String[] {"TABLE"})) {
                while (rows.next()) {
                    tables.add(rows.getString("TABLE_NAME"));
                }
            }
            holds(tables.containsAll(List.of("customer", "dates", "lineorder", "part", "supplier")), "tables: " + tables);
            Set<String> columns = new HashSet<>();
            try (ResultSet rows = connection.getMetaData().getColumns(null, "public", "dates", "%")) {
                while (rows.next()) {
                    columns.add(rows.getString("COLUMN_NAME"));
                    holds(rows.getInt("DATA_TYPE") != Types.OTHER, rows.getString("COLUMN_NAME"));
                }
            }
            holds(columns.containsAll(List.of("d_datekey", "d_year")), "columns: " + columns);
            Set<String> schemas = new HashSet<>();
            try (ResultSet rows = connection.getMetaData().getSchemas()) {
                while (rows.next()) {
                    schemas.add(rows.getString("TABLE_SCHEM"));
                }
            }
            holds(schemas.contains("public"), "schemas: " + schemas);
            try (ResultSet rows = connection.getMetaData().getCatalogs()) {
                holds(rows.next(), "no catalog");
            }
            try (ResultSet rows = connection.getMetaData().getTableTypes()) {
                holds(rows.next(), "no table types");
            }
            try (ResultSet rows = connection.getMetaData().getTypeInfo()) {
                holds(rows.next(), "no types");
            }
        }
    }

    private void keys() throws SQLException {
        try (Connection connection = connect()) {
            try (ResultSet rows = connection.getMetaData().getPrimaryKeys(null, "public", "dates")) {
                holds(!rows.next(), "a primary key");
            }
            try (ResultSet rows = connection.getMetaData().getIndexInfo(null, "public", "dates", false, true)) {
                holds(!rows.next(), "an index");
            }
            try (ResultSet rows = connection.getMetaData().getImportedKeys(null, "public", "lineorder")) {
                holds(!rows.next(), "a foreign key");
            }
        }
    }

    private void descriptions() throws SQLException {
        try (Connection connection = connect();
                PreparedStatement statement = connection.prepareStatement("SELECT d_year, count(*) AS n FROM dates WHERE d_year = ? GROUP BY d_year")) {
            equal(statement.getParameterMetaData().getParameterCount(), 1);
            ResultSetMetaData columns = statement.getMetaData();
            equal(columns.getColumnCount(), 2);
            equal(columns.getColumnName(2), "n");
            equal(columns.getColumnType(2), Types.BIGINT);
        }
    }

    private void manyConnections() throws SQLException {
        for (int i = 0; i < 20; i++) {
            try (Connection connection = connect()) {
                equal(count(connection, "SELECT " + i), (long) i);
            }
        }
    }
}
