import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * The Flight SQL JDBC driver against a server that has the Star Schema Benchmark tables in schema `public`.
 *
 * <p>Where the server is comes from FLIGHTHOST and FLIGHTPORT. With FLIGHT_USER and FLIGHT_PASSWORD a user logs in, with FLIGHT_ROOTS the server's
 * certificate is checked. Prints one line for each check and exits with 1 if any failed.
 */
public final class FlightJdbc {
    /** Counts for hours without giving a row. */
    private static final String LONG = "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(n) WHERE n % 7 = 8";

    private interface Check {
        void run() throws Exception;
    }

    private final Map<String, Check> checks = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        Class.forName("org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver");
        System.exit(new FlightJdbc().runAll());
    }

    private FlightJdbc() {
        checks.put("values of all types", this::values);
        checks.put("times with a zone as times of UTC", this::zoneless);
        checks.put("parameters", this::parameters);
        checks.put("statements without rows, and batches", this::writing);
        checks.put("many rows", this::manyRows);
        checks.put("tables, columns and keys", this::metaData);
        checks.put("every question about the database that takes no argument", this::allQuestions);
        checks.put("columns of results", this::resultMetaData);
        checks.put("errors have message, SQLSTATE and the next step", this::errors);
        checks.put("a cancelled statement ends on the server", this::cancelling);
        checks.put("a closed statement ends its answer", this::closing);
        checks.put("a database in the address is checked", this::catalog);
        if (System.getenv("FLIGHT_USER") != null) {
            checks.put("a wrong password and a wrong certificate are refused", this::refused);
        }
    }

    private int runAll() {
        int failed = 0;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            try {
                check.getValue().run();
                System.out.println("ok    " + check.getKey());
            } catch (Throwable problem) {
                failed++;
                System.out.println("FAIL  " + check.getKey());
                problem.printStackTrace(System.out);
            }
        }
        System.out.println((checks.size() - failed) + " of " + checks.size() + " checks passed");
        return failed == 0 ? 0 : 1;
    }

    private static Connection connect() throws SQLException {
        return connect("");
    }

    private static Connection connect(String more) throws SQLException {
        String roots = System.getenv("FLIGHT_ROOTS");
        String encryption = roots == null ? "useEncryption=false" : "useSystemTrustStore=false&tlsRootCerts=" + roots;
        return connect(encryption, System.getenv("FLIGHT_PASSWORD"), more);
    }

    private static Connection connect(String encryption, String password, String more) throws SQLException {
        String server = System.getenv("FLIGHTHOST") + ":" + System.getenv("FLIGHTPORT");
        String user = System.getenv("FLIGHT_USER");
        String login = user == null ? "" : "&user=" + user + "&password=" + password;
        return DriverManager.getConnection("jdbc:arrow-flight-sql://" + server + "/?" + encryption + login + more);
    }

    private void values() throws SQLException {
        String sql =
                "SELECT CAST(7 AS INTEGER), 8000000000, CAST(2.5 AS DOUBLE PRECISION), CAST(1.25 AS DECIMAL(10, 2)), 'text', '', true, "
                        + "DATE '1997-03-31', TIMESTAMP '1997-03-31 23:59:58.5', CAST(NULL AS VARCHAR), c_city FROM customer LIMIT 1";
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            equal(row.next(), true);
            equal(row.getInt(1), 7);
            equal(row.getLong(2), 8000000000L);
            equal(row.getDouble(3), 2.5);
            equal(row.getBigDecimal(4), new BigDecimal("1.25"));
            equal(row.getString(5), "text");
            equal(row.getString(6), "");
            equal(row.getBoolean(7), true);
            equal(row.getDate(8).toString(), "1997-03-31");
            equal(row.getTimestamp(9).toLocalDateTime().toString(), "1997-03-31T23:59:58.500");
            equal(row.getString(10), null);
            equal(row.wasNull(), true);
            equal(row.getString(11).isEmpty(), false);
            equal(row.next(), false);
        }
    }

    private void zoneless() throws SQLException {
        String sql = "SELECT TIMESTAMPTZ '1997-03-31 23:59:58Z'";
        // What the driver does not know goes as a header with each call.
        try (Connection connection = connect("&x-nyala-flight-types=zoneless");
                Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            equal(row.next(), true);
            equal(((Timestamp) row.getObject(1)).toLocalDateTime().toString(), "1997-03-31T23:59:58");
        }
        String message = "none";
        try (Connection connection = connect("&x-nyala-flight-types=views");
                Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            row.next();
        } catch (SQLException | RuntimeException problem) {
            message = whole(problem);
        }
        equal(message.contains("zoneless") ? "" : message, "");
    }

    private void parameters() throws SQLException {
        String sql = "SELECT count(*) FROM lineorder WHERE lo_discount = ? AND lo_shipmode = ? AND lo_quantity < ?";
        // The driver passes a question mark on as it is.
        sql = sql.replaceFirst("\\?", "\\$1").replaceFirst("\\?", "\\$2").replaceFirst("\\?", "\\$3");
        try (Connection connection = connect();
                PreparedStatement statement = connection.prepareStatement(sql)) {
            equal(statement.getParameterMetaData().getParameterCount(), 3);
            long last = -1;
            for (int quantity : new int[] {10, 20, 40}) {
                statement.setInt(1, 3);
                statement.setString(2, "AIR");
                statement.setInt(3, quantity);
                try (ResultSet rows = statement.executeQuery()) {
                    equal(rows.next(), true);
                    equal(rows.getLong(1) > last, true);
                    last = rows.getLong(1);
                }
            }
        }
        String typed =
                "SELECT count(*) FROM generate_series(1, 1) WHERE $1 = DATE '2020-02-29' AND $2 = CAST(2.5 AS DOUBLE PRECISION) AND $3 = true "
                        + "AND ($4 > CAST(1 AS BIGINT)) IS NULL AND CAST($5 AS NUMERIC(30, 5)) = 1234567890123456789.12345";
        try (Connection connection = connect();
                PreparedStatement statement = connection.prepareStatement(typed)) {
            statement.setDate(1, Date.valueOf("2020-02-29"));
            statement.setDouble(2, 2.5);
            statement.setBoolean(3, true);
            statement.setNull(4, Types.BIGINT);
            statement.setString(5, "1234567890123456789.12345");
            try (ResultSet row = statement.executeQuery()) {
                equal(row.next(), true);
                equal(row.getLong(1), 1L);
            }
        }
    }

    private void writing() throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            statement.executeUpdate("CREATE TABLE by_jdbc (k BIGINT PRIMARY KEY, t TEXT)");
            equal(statement.executeUpdate("INSERT INTO by_jdbc VALUES (1, 'one'), (2, 'two')"), 2);
            equal(statement.execute("UPDATE by_jdbc SET t = 'three' WHERE k = 2"), false);
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO by_jdbc VALUES ($1, $2)")) {
                for (int k = 10; k < 60; k++) {
                    insert.setInt(1, k);
                    insert.setString(2, "t" + k);
                    insert.addBatch();
                }
                insert.executeBatch();
            }
            try (ResultSet rows = statement.executeQuery("SELECT count(*), max(t) FROM by_jdbc")) {
                equal(rows.next(), true);
                equal(rows.getLong(1), 52L);
                equal(rows.getString(2), "three");
            }
        }
    }

    private void manyRows() throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT n, 'row ' || n FROM generate_series(1, 300000) AS s(n)")) {
            long count = 0;
            long sum = 0;
            while (rows.next()) {
                count++;
                sum += rows.getLong(1);
            }
            equal(count, 300000L);
            equal(sum, 45000150000L);
        }
    }

    private void metaData() throws SQLException {
        try (Connection connection = connect()) {
            DatabaseMetaData database = connection.getMetaData();
            equal(database.getDatabaseProductName(), "Nyala");
            equal(column(database.getCatalogs(), "TABLE_CAT"), Set.of("nyala"));
            equal(column(database.getSchemas(), "TABLE_SCHEM").containsAll(Set.of("public", "system")), true);
            equal(column(database.getTableTypes(), "TABLE_TYPE").contains("TABLE"), true);
            Set<String> tables = column(database.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME");
            equal(tables.containsAll(Set.of("lineorder", "customer", "supplier", "part", "dates")), true);
            equal(column(database.getTables("nyala", "public", "cust%", null), "TABLE_NAME"), Set.of("customer"));
            equal(column(database.getTables(null, "public", "no_such", null), "TABLE_NAME"), Set.of());
            Set<String> columns = column(database.getColumns(null, "public", "dates", "d_y%"), "COLUMN_NAME");
            equal(columns.contains("d_year"), true);
            try (Statement statement = connection.createStatement()) {
                statement.executeUpdate("CREATE TABLE keyed_by_jdbc (a BIGINT, b TEXT, PRIMARY KEY (a, b))");
            }
            equal(column(database.getPrimaryKeys(null, "public", "keyed_by_jdbc"), "COLUMN_NAME"), Set.of("a", "b"));
            equal(column(database.getColumns(null, "public", "keyed_by_jdbc", "%"), "IS_NULLABLE"), Set.of("NO"));
            equal(column(database.getColumns(null, "public", "keyed_by_jdbc", "%"), "TYPE_NAME"), Set.of("bigint", "text"));
            equal(column(database.getImportedKeys(null, "public", "lineorder"), "FKTABLE_NAME"), Set.of());
            equal(column(database.getExportedKeys(null, "public", "lineorder"), "FKTABLE_NAME"), Set.of());
            equal(column(database.getCrossReference(null, "public", "lineorder", null, "public", "dates"), "FKTABLE_NAME"), Set.of());
        }
    }

    private void allQuestions() throws Exception {
        try (Connection connection = connect()) {
            DatabaseMetaData database = connection.getMetaData();
            Map<String, String> refused = new TreeMap<>();
            int asked = 0;
            for (Method method : DatabaseMetaData.class.getMethods()) {
                if (method.getParameterCount() > 0) {
                    continue;
                }
                asked++;
                try {
                    Object answer = method.invoke(database);
                    if (answer instanceof ResultSet rows) {
                        rows.close();
                    }
                } catch (InvocationTargetException problem) {
                    refused.put(method.getName(), String.valueOf(problem.getCause()));
                }
            }
            equal(refused, Map.of());
            equal(asked > 130, true);
        }
    }

    private void resultMetaData() throws SQLException {
        try (Connection connection = connect();
                PreparedStatement statement = connection.prepareStatement("SELECT d_year AS y, count(*) AS n FROM dates GROUP BY d_year")) {
            ResultSetMetaData columns = statement.getMetaData();
            equal(columns.getColumnCount(), 2);
            equal(columns.getColumnLabel(1), "y");
            equal(columns.getColumnLabel(2), "n");
            equal(columns.getColumnType(2), Types.BIGINT);
        }
    }

    private void errors() throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            Map<String, String> words = new LinkedHashMap<>();
            words.put("SELECT nope FROM lineorder", "[42703]");
            words.put("SELECT * FROM nowhere", "[42P01]");
            words.put("SELEC 1", "[42601]");
            words.put("SELECT 1 / (n - 200000) FROM generate_series(1, 300000) AS s(n)", "[22012]");
            for (Map.Entry<String, String> failing : words.entrySet()) {
                String message = "none";
                try (ResultSet rows = statement.executeQuery(failing.getKey())) {
                    while (rows.next()) {}
                } catch (SQLException problem) {
                    message = whole(problem);
                } catch (RuntimeException problem) {
                    // In the middle of an answer the driver throws what it got.
                    message = whole(problem);
                }
                equal(message.contains(failing.getValue()) ? failing.getValue() : message, failing.getValue());
            }
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO by_jdbc VALUES (1000 / $1, 'divided')")) {
                for (int k : new int[] {1, 0}) {
                    insert.setInt(1, k);
                    insert.addBatch();
                }
                String message = "none";
                try {
                    insert.executeBatch();
                } catch (BatchUpdateException problem) {
                    message = whole(problem);
                } catch (SQLException problem) {
                    message = whole(problem);
                }
                equal(message.contains("[22012]") ? "" : message, "");
            }
        }
    }

    private void cancelling() throws Exception {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            List<String> outcome = new ArrayList<>();
            Thread asking =
                    new Thread(
                            () -> {
                                try (ResultSet rows = statement.executeQuery(LONG)) {
                                    rows.next();
                                    outcome.add("an answer");
                                } catch (Exception problem) {
                                    outcome.add("ended");
                                }
                            });
            asking.start();
            until("the query runs", () -> running(LONG) == 1);
            statement.cancel();
            asking.join(60_000);
            equal(outcome, List.of("ended"));
            until("the query ended", () -> running(LONG) == 0);
        }
    }

    private void closing() throws Exception {
        String sql = "SELECT n, repeat('x', 100) FROM generate_series(1, 1000000000) AS closed(n)";
        try (Connection connection = connect()) {
            Statement statement = connection.createStatement();
            ResultSet rows = statement.executeQuery(sql);
            equal(rows.next(), true);
            equal(running(sql), 1L);
            rows.close();
            statement.close();
            until("the query ended", () -> running(sql) == 0);
        }
    }

    private void catalog() throws SQLException {
        // Not closed by `try`: the driver ends its session over a connection that it has closed before, and throws.
        Connection connection = connect("&catalog=nyala");
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT 1")) {
            equal(rows.next(), true);
        }
        String message = "none";
        try {
            connect("&catalog=other").close();
        } catch (SQLException problem) {
            message = whole(problem);
        }
        equal(message.contains("none"), false);
    }

    private void refused() throws SQLException {
        String roots = "useSystemTrustStore=false&tlsRootCerts=" + System.getenv("FLIGHT_ROOTS");
        equal(isRefused(roots, "wrong"), true);
        // The system does not know who made the certificate.
        equal(isRefused("useEncryption=true", System.getenv("FLIGHT_PASSWORD")), true);
        equal(isRefused(roots, System.getenv("FLIGHT_PASSWORD")), false);
    }

    private static boolean isRefused(String encryption, String password) {
        try (Connection connection = connect(encryption, password, "");
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT 1")) {
            return !rows.next();
        } catch (SQLException | RuntimeException expected) {
            return true;
        }
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static void until(String what, Condition condition) throws Exception {
        long end = System.nanoTime() + 60_000_000_000L;
        while (!condition.holds()) {
            if (System.nanoTime() > end) {
                throw new AssertionError(what + ": not within a minute");
            }
            Thread.sleep(50);
        }
    }

    private static long running(String sql) throws SQLException {
        String asking = "SELECT count(*) FROM system.queries WHERE query = '" + sql.replace("'", "''") + "'";
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(asking)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    private static Set<String> column(ResultSet rows, String name) throws SQLException {
        Set<String> found = new HashSet<>();
        try (rows) {
            while (rows.next()) {
                found.add(rows.getString(name));
            }
        }
        return found;
    }

    private static String whole(Throwable problem) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
            text.append(cause).append('\n');
        }
        return text.toString();
    }

    private static void equal(Object found, Object expected) {
        if (found == null ? expected != null : !found.equals(expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }
}
