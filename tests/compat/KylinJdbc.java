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
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;

/**
 * A Kylin JDBC driver, of version 3.1, 4.0 or 5.0, against a server that has the Star Schema Benchmark tables in schema `public`.
 *
 * <p>Where the server is comes from HTTPHOST and HTTPPORT. With KYLIN_USER and KYLIN_PASSWORD it logs in, with KYLIN_SSL over TLS. Prints one
 * line for each check and exits with 1 if any failed.
 */
public final class KylinJdbc {
    private interface Check {
        void run() throws Exception;
    }

    private final Map<String, Check> checks = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        Class.forName("org.apache.kylin.jdbc.Driver");
        System.exit(new KylinJdbc().runAll());
    }

    private KylinJdbc() {
        checks.put("connecting", this::connecting);
        checks.put("a schema as project", this::projects);
        if (System.getenv("KYLIN_PASSWORD") != null) {
            checks.put("a wrong password", this::wrongPassword);
        }
        checks.put("values of all types", this::values);
        checks.put("parameters", this::parameters);
        checks.put("rows at most", this::maxRows);
        checks.put("tables and columns", this::metaData);
        checks.put("columns of results", this::resultMetaData);
        checks.put("errors have the message", this::errors);
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
        return connectTo("nyala", System.getenv().getOrDefault("KYLIN_PASSWORD", "x"));
    }

    private static Connection connectTo(String project, String password) throws SQLException {
        String url = "jdbc:kylin://" + System.getenv("HTTPHOST") + ":" + System.getenv("HTTPPORT") + "/" + project;
        Properties login = new Properties();
        login.setProperty("user", System.getenv().getOrDefault("KYLIN_USER", "compat"));
        login.setProperty("password", password);
        login.setProperty("ssl", System.getenv().getOrDefault("KYLIN_SSL", "false"));
        return DriverManager.getConnection(url, login);
    }

    private void connecting() throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT count(*) FROM dates")) {
            equal(rows.next(), true);
            equal(rows.getLong(1), 2557L);
            equal(rows.next(), false);
        }
    }

    private void projects() throws SQLException {
        try (Connection connection = connectTo("public", System.getenv().getOrDefault("KYLIN_PASSWORD", "x"));
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SHOW CREATE CUBE ssb")) {
            equal(rows.next(), true);
            equal(rows.getString("schema"), "public");
            equal(rows.getString("statement").startsWith("CREATE CUBE public.ssb AS SELECT"), true);
        }
    }

    private void wrongPassword() {
        try (Connection connection = connectTo("nyala", "wrong");
                Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT 1");
        } catch (SQLException expected) {
            return;
        }
        throw new AssertionError("it should have been refused");
    }

    private void values() throws SQLException {
        String sql =
                "SELECT 7, 8000000000, CAST(2.5 AS DOUBLE), CAST(1.25 AS DECIMAL(10, 2)), 'text', '', true, "
                        + "DATE '1997-03-31', TIMESTAMP '1997-03-31 23:59:58.5', CAST(NULL AS VARCHAR), CAST(0.5 AS REAL), TIME '23:59:58'";
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            equal(rows.next(), true);
            equal(rows.getInt(1), 7);
            equal(rows.getLong(2), 8_000_000_000L);
            equal(rows.getDouble(3), 2.5);
            equal(rows.getBigDecimal(4).compareTo(new BigDecimal("1.25")), 0);
            equal(rows.getString(5), "text");
            equal(rows.getString(6), "");
            equal(rows.getBoolean(7), true);
            equal(rows.getDate(8).toString(), "1997-03-31");
            equal(rows.getTimestamp(9), Timestamp.valueOf("1997-03-31 23:59:58.5"));
            equal(rows.getString(10), null);
            equal(rows.getDouble(11), 0.5);
            equal(rows.getString(12), "23:59:58");
        }
    }

    private void parameters() throws SQLException {
        String sql = "SELECT d_datekey FROM dates WHERE d_year = ? AND d_datekey > ? ORDER BY d_datekey /* ? */ ";
        // Some versions count placeholders in comments.
        String plain = sql.replace("/* ? */", "");
        try (Connection connection = connect();
                PreparedStatement statement = connection.prepareStatement(plain)) {
            statement.setInt(1, 1997);
            statement.setLong(2, 19971229L);
            try (ResultSet rows = statement.executeQuery()) {
                equal(rows.next(), true);
                equal(rows.getLong(1), 19971230L);
            }
        }
        try (Connection connection = connect();
                PreparedStatement statement =
                        connection.prepareStatement("SELECT ? || 'x', CAST(? AS DATE) + INTERVAL '1' DAY")) {
            statement.setString(1, "it's ?");
            statement.setDate(2, Date.valueOf("1997-03-31"));
            try (ResultSet rows = statement.executeQuery()) {
                equal(rows.next(), true);
                equal(rows.getString(1), "it's ?x");
            }
        }
        // The date stands before the number in what this is translated to.
        try (Connection connection = connect();
                PreparedStatement statement =
                        connection.prepareStatement("SELECT CAST(TIMESTAMPADD(DAY, ?, CAST(? AS DATE)) AS DATE)")) {
            statement.setInt(1, 2);
            statement.setDate(2, Date.valueOf("1997-03-31"));
            try (ResultSet rows = statement.executeQuery()) {
                equal(rows.next(), true);
                equal(rows.getDate(1).toString(), "1997-04-02");
            }
        }
    }

    private void maxRows() throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            statement.setMaxRows(5);
            try (ResultSet rows = statement.executeQuery("SELECT d_datekey FROM dates")) {
                int count = 0;
                while (rows.next()) {
                    count++;
                }
                equal(count, 5);
            }
        }
    }

    private void metaData() throws SQLException {
        Set<String> tables = new HashSet<>();
        Set<String> columns = new HashSet<>();
        try (Connection connection = connect()) {
            try (ResultSet rows = connection.getMetaData().getTables(null, "public", "%", null)) {
                while (rows.next()) {
                    tables.add(rows.getString("TABLE_NAME"));
                }
            }
            try (ResultSet rows = connection.getMetaData().getColumns(null, "public", "dates", "%")) {
                while (rows.next()) {
                    columns.add(rows.getString("COLUMN_NAME"));
                }
            }
        }
        equal(tables.containsAll(List.of("customer", "dates", "lineorder", "part", "supplier")), true);
        equal(columns.containsAll(List.of("d_datekey", "d_year")), true);
    }

    private void resultMetaData() throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT d_year AS jahr, count(*) FROM dates GROUP BY d_year")) {
            ResultSetMetaData meta = rows.getMetaData();
            equal(meta.getColumnCount(), 2);
            equal(meta.getColumnLabel(1), "jahr");
            equal(meta.getColumnTypeName(2), "BIGINT");
        }
        String capitals = "SELECT \"D_YEAR\", count(*) AS \"Days\" FROM \"PUBLIC\".\"DATES\" GROUP BY \"D_YEAR\"";
        try (Connection connection = connectTo("PUBLIC", System.getenv().getOrDefault("KYLIN_PASSWORD", "x"));
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(capitals)) {
            equal(rows.getMetaData().getColumnLabel(1), "D_YEAR");
            equal(rows.getMetaData().getColumnLabel(2), "Days");
        }
    }

    private void errors() throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT nothing FROM nowhere");
            throw new AssertionError("it should have failed");
        } catch (SQLException expected) {
            String message = String.valueOf(expected.getMessage()) + expected.getCause();
            equal(message.contains("nowhere"), true);
        }
    }

    private static void equal(Object found, Object expected) {
        if (found == null ? expected != null : !found.equals(expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }
}
