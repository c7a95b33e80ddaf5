#!/usr/bin/env python3
"""by_spark.py OUT_DIR [NAME...]: Delta tables written by PySpark + delta-spark, with the answers that Spark gives.
   by_spark.py --check OUT_DIR: Spark reads every version of by_delta_rs.py's tables in OUT_DIR and compares with their expected files."""
import glob, json, os, shutil, sys, time, traceback
os.environ['TZ'] = 'UTC'
time.tzset()
os.environ['SPARK_LOCAL_IP'] = '127.0.0.1'
os.environ.setdefault('SPARK_LOCAL_HOSTNAME', 'localhost')
import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from importlib.metadata import version as pkg
from expected import Manifest, csv_text, log_protocol, write_expected

TMP = os.path.join(os.environ['JARS'], '..', 'spark-tmp')


def session():
    shutil.rmtree(TMP, ignore_errors=True)
    os.makedirs(TMP)
    jars = sorted(glob.glob(os.path.join(os.environ['JARS'], '*.jar')))
    jars = [j for j in jars if not os.path.basename(j).startswith('jts-core')]   # pyspark has it
    b = (SparkSession.builder.master('local[2]').appName('h-delta')
         .config('spark.jars', ','.join(jars))
         .config('spark.driver.extraClassPath', ':'.join(jars))
         .config('spark.sql.extensions', 'io.delta.sql.DeltaSparkSessionExtension')
         .config('spark.sql.catalog.spark_catalog', 'org.apache.spark.sql.delta.catalog.DeltaCatalog')
         .config('spark.driver.memory', '3g').config('spark.ui.enabled', 'false').config('spark.ui.showConsoleProgress', 'false')
         .config('spark.driver.bindAddress', '127.0.0.1').config('spark.driver.host', '127.0.0.1')
         .config('spark.sql.shuffle.partitions', '4').config('spark.default.parallelism', '4')
         .config('spark.databricks.delta.snapshotPartitions', '2')
         .config('spark.sql.session.timeZone', 'UTC')
         .config('spark.driver.extraJavaOptions', '-Duser.timezone=UTC -Dderby.system.home=' + TMP)
         .config('spark.sql.warehouse.dir', TMP + '/warehouse').config('spark.local.dir', TMP)
         .config('spark.databricks.delta.retentionDurationCheck.enabled', 'false')
         .config('spark.sql.execution.arrow.maxRecordsPerBatch', '100000')
         .config('spark.hadoop.parquet.block.size', str(256 * 1024)))
    s = b.getOrCreate()
    s.sparkContext.setLogLevel('ERROR')
    return s


class Ctx:
    def __init__(self, spark, out, man):
        self.spark, self.out, self.man = spark, out, man

    def path(self, name):
        p = os.path.join(self.out, name)
        shutil.rmtree(p, ignore_errors=True)
        for f in glob.glob(p + '.expected.csv') + glob.glob(p + '@*.expected.csv'):
            os.remove(f)
        return p

    def sql(self, q, **kw):
        return self.spark.sql(q, **kw)

    def read(self, name, v):
        df = self.spark.read.format('delta').option('versionAsOf', v).load(os.path.join(self.out, name))
        cols = []
        for f in df.schema.fields:
            q = '`%s`' % f.name.replace('`', '``')
            cols.append('to_json(%s) as %s' % (q, q) if f.dataType.typeName() == 'variant' else q)
        return df.selectExpr(*cols).toArrow()

    def expect(self, name, versions=None, **kw):
        p = os.path.join(self.out, name)
        h = self.sql("DESCRIBE HISTORY delta.`%s`" % p).select('version', 'operation').orderBy('version').collect()
        last = h[-1].version
        for v in (range(last + 1) if versions is None else sorted(set(versions) | {last})):
            write_expected(self.out, name, v, v == last, self.read(name, v), self.man)
        d = self.sql("DESCRIBE DETAIL delta.`%s`" % p).collect()[0]
        feats = list(d.tableFeatures or [])
        proto, meta = log_protocol(p)
        if proto is None:    # only a checkpoint has it
            proto = {'readerFeatures': [f for f in feats if f in ('deletionVectors', 'columnMapping', 'timestampNtz', 'typeWidening', 'v2Checkpoint', 'variantType')] if d.minReaderVersion == 3 else None,
                     'writerFeatures': feats if d.minWriterVersion == 7 else None}
        self.man.table(name, last_version=last, operations=[r.operation for r in h], min_reader=d.minReaderVersion, min_writer=d.minWriterVersion,
                       reader_features=sorted((proto or {}).get('readerFeatures') or []), writer_features=sorted((proto or {}).get('writerFeatures') or []),
                       table_features=sorted(feats), partition_columns=list(d.partitionColumns), configuration=dict(d.properties), **kw)


def T(p):
    return 'delta.`%s`' % p


def log_names(p):
    return sorted(f for f in os.listdir(os.path.join(p, '_delta_log')) if not f.startswith('.'))


# 100k rows as SQL over range(): a pure function of id
ROWS = """select id, cast(id %% 1000 as int) k, case when id %% 17 = 3 then null else id * 0.5 end v,
  concat('str-', id, '-', substr(md5(cast(id as string)), 1, 12)) s, timestamp_micros(1704164645123456 + id * 1000001) ts
  from range(%d, %d, 1, %d)"""


def dv(c):
    p = c.path('dv')
    c.sql("CREATE TABLE %s (id bigint, k int, v double, s string, ts timestamp) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true', 'delta.checkpointInterval'='1000')" % T(p))
    c.sql("INSERT INTO %s %s" % (T(p), ROWS % (0, 100000, 4)))                           # 1: 4 files of 25,000 rows
    c.sql("DELETE FROM %s WHERE k %% 97 = 5" % T(p))                                     # 2: scattered over all files
    c.sql("DELETE FROM %s WHERE id BETWEEN 30000 AND 44999" % T(p))                      # 3: a run over whole row groups of file 2
    c.sql("UPDATE %s SET v = -1, s = concat('u', s) WHERE id %% 1009 = 7" % T(p))        # 4: vectors + a new file
    c.sql("DELETE FROM %s WHERE pmod(hash(id), 50) = 0" % T(p))                          # 5: pseudo-random, replaces vectors
    c.sql("DELETE FROM %s WHERE id BETWEEN 0 AND 99 OR id BETWEEN 74990 AND 75009 OR id = 99999" % T(p))   # 6: edges of files
    c.sql("DELETE FROM %s WHERE id >= 50000 AND id < 75000" % T(p))                      # 7: file 3 has no row left
    c.sql("""MERGE INTO %s t USING (select id, -id as nv from range(99000, 100500)) s ON t.id = s.id
             WHEN MATCHED AND s.id %% 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = nv
             WHEN NOT MATCHED THEN INSERT (id, k, v, s, ts) VALUES (s.id, 0, nv, 'merged', timestamp'2024-01-02 03:04:05.123456')""" % T(p))  # 8
    c.expect('dv')


def dv_ckpt(c):
    """the same, smaller, with a checkpoint holding vectors, a purge (REORG) and a partition column"""
    p = c.path('dv_ckpt')
    c.sql("CREATE TABLE %s (id bigint, part string, v double) USING delta PARTITIONED BY (part) TBLPROPERTIES ('delta.enableDeletionVectors'='true', 'delta.checkpointInterval'='5')" % T(p))
    c.sql("INSERT INTO %s select id, concat('p ', id %% 3), id / 7.0D from range(0, 3000, 1, 1)" % T(p))
    for i in range(6):                                                                    # 2..7, checkpoint at 5
        c.sql("DELETE FROM %s WHERE id %% 41 = %d" % (T(p), i))
    c.sql("REORG TABLE %s WHERE part = 'p 1' APPLY (PURGE)" % T(p))                       # 8
    c.sql("DELETE FROM %s WHERE part = 'p 2'" % T(p))                                     # 9
    c.expect('dv_ckpt', log_files=log_names(p))


def mapped(c):
    p = c.path('mapped')
    c.sql("CREATE TABLE %s (id bigint, a string, gone int, st struct<x: int, y: string>, l array<struct<q: int>>, part string) USING delta PARTITIONED BY (part)" % T(p))
    row = "select id, concat('a', id), cast(id * 2 as int), named_struct('x', cast(id as int), 'y', concat('y', id)), array(named_struct('q', cast(id as int)), null), concat('p', id %% 2) from range(%d, %d, 1, 1)"
    c.sql("INSERT INTO %s %s" % (T(p), row % (0, 60)))                                    # 1: before the mapping
    c.sql("ALTER TABLE %s SET TBLPROPERTIES ('delta.columnMapping.mode'='name', 'delta.minReaderVersion'='2', 'delta.minWriterVersion'='5')" % T(p))   # 2
    c.sql("ALTER TABLE %s RENAME COLUMN a TO `a new, name`" % T(p))                       # 3
    c.sql("ALTER TABLE %s DROP COLUMN gone" % T(p))                                       # 4
    c.sql("INSERT INTO %s select id, concat('b', id), named_struct('x', cast(id as int), 'y', null), null, concat('p', id %% 3) from range(60, 100, 1, 1)" % T(p))   # 5
    c.sql("ALTER TABLE %s RENAME COLUMN st.x TO xx" % T(p))                               # 6
    c.sql("ALTER TABLE %s RENAME COLUMN part TO `pärt`" % T(p))                           # 7
    c.sql("ALTER TABLE %s ADD COLUMN gone string" % T(p))                                 # 8: same name, another type and physical name
    c.sql("ALTER TABLE %s RENAME COLUMN id TO tmp" % T(p))                                # 9
    c.sql("ALTER TABLE %s RENAME COLUMN `a new, name` TO id" % T(p))                      # 10: id now names what was a
    c.sql("ALTER TABLE %s RENAME COLUMN tmp TO key" % T(p))                               # 11
    c.sql("INSERT INTO %s (key, id, gone, `pärt`) select id, concat('c', id), 'new', 'p9' from range(100, 110, 1, 1)" % T(p))   # 12
    c.sql("DELETE FROM %s WHERE key %% 10 = 1" % T(p))                                    # 13
    c.expect('mapped')


def mapped_id(c):
    p = c.path('mapped_id')
    c.sql("CREATE TABLE %s (id bigint, `a b` string, gone int) USING delta TBLPROPERTIES ('delta.columnMapping.mode'='id')" % T(p))
    c.sql("INSERT INTO %s select id, concat('a', id), cast(id * 2 as int) from range(0, 50, 1, 1)" % T(p))
    c.sql("ALTER TABLE %s RENAME COLUMN `a b` TO renamed" % T(p))
    c.sql("ALTER TABLE %s DROP COLUMN gone" % T(p))
    c.sql("INSERT INTO %s select id, concat('b', id) from range(50, 60, 1, 1)" % T(p))
    c.expect('mapped_id')


def _many(c, p, n):
    for v in range(1, n + 1):
        if v % 4 == 0:
            c.sql("DELETE FROM %s WHERE id %% 13 = %d" % (T(p), v % 13))
        else:
            c.sql("INSERT INTO %s select id, concat('r', id), if(id %% 5 = 0, null, id * 0.1D) from range(%d, %d, 1, 1)" % (T(p), v * 50, v * 50 + 50))


def _v2(c, name, fmt, prune):
    p = c.path(name)
    c.spark.conf.set('spark.databricks.delta.checkpointV2.topLevelFileFormat', fmt)
    c.spark.conf.set('spark.databricks.delta.checkpoint.partSize', '6')
    try:
        c.sql("CREATE TABLE %s (id bigint, s string, v double) USING delta TBLPROPERTIES ('delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='6', 'delta.enableDeletionVectors'='false')" % T(p))
        _many(c, p, 20)
        first = 0
        if prune:      # what a log cleanup leaves: nothing older than the checkpoint at 12
            for f in os.listdir(p + '/_delta_log'):
                n = f.lstrip('.')
                if n[:20].isdigit() and int(n[:20]) < 12:
                    os.remove(os.path.join(p, '_delta_log', f))
            first = 12
        c.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        c.expect(name, range(first, 21), log_files=log_names(p), sidecars=len([f for f in os.listdir(p + '/_delta_log/_sidecars') if f.endswith('.parquet')]))
    finally:
        c.spark.conf.unset('spark.databricks.delta.checkpointV2.topLevelFileFormat')
        c.spark.conf.unset('spark.databricks.delta.checkpoint.partSize')


def v2ckpt(c):
    _v2(c, 'v2ckpt', 'json', False)


def v2ckpt_parquet(c):
    _v2(c, 'v2ckpt_parquet', 'parquet', True)


def multickpt(c):
    """classic checkpoints in several parts, older commits removed"""
    p = c.path('multickpt')
    c.spark.conf.set('spark.databricks.delta.checkpoint.partSize', '5')
    try:
        c.sql("CREATE TABLE %s (id bigint, s string, v double) USING delta TBLPROPERTIES ('delta.checkpointInterval'='6', 'delta.enableDeletionVectors'='false')" % T(p))
        _many(c, p, 20)
        for f in os.listdir(p + '/_delta_log'):
            n = f.lstrip('.')
            if n[:20].isdigit() and int(n[:20]) < 12:
                os.remove(os.path.join(p, '_delta_log', f))
        c.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        c.expect('multickpt', range(12, 21), log_files=log_names(p))
    finally:
        c.spark.conf.unset('spark.databricks.delta.checkpoint.partSize')


def widened(c):
    p = c.path('widened')
    c.sql("""CREATE TABLE %s (id int, b tinyint, f float, d decimal(10,2), dt date, st struct<n: smallint>, arr array<smallint>, part int) USING delta PARTITIONED BY (part)
             TBLPROPERTIES ('delta.enableTypeWidening'='true', 'delta.feature.timestampNtz'='supported')""" % T(p))
    c.sql("""INSERT INTO %s select cast(id as int), cast(id - 50 as tinyint), cast(id * 0.1 as float), cast(id * 1.25 as decimal(10,2)), date_add(date'2024-01-01', cast(id as int)),
             named_struct('n', cast(id as smallint)), array(cast(id as smallint), null), cast(id %% 3 as int) from range(0, 100, 1, 1)""" % T(p))                      # 1
    c.sql("INSERT INTO %s VALUES (2147483647, 127, null, null, null, null, null, 2147483647), (-2147483648, -128, 3.5, -99999999.99, date'9999-12-31', named_struct('n', cast(-32768 as smallint)), array(), null)" % T(p))   # 2
    for col, t in (('id', 'bigint'), ('b', 'int'), ('f', 'double'), ('d', 'decimal(20,4)'), ('st.n', 'int'), ('arr.element', 'bigint'), ('part', 'bigint')):       # 3..9
        c.sql("ALTER TABLE %s CHANGE COLUMN %s TYPE %s" % (T(p), col, t))
    done = []
    try:
        c.sql("ALTER TABLE %s CHANGE COLUMN dt TYPE timestamp_ntz" % T(p))                # 10
        done.append('date to timestamp_ntz')
    except Exception as e:
        done.append('date to timestamp_ntz refused: ' + str(e)[:150])
    c.sql("INSERT INTO %s select 9000000000 + id, 1000000, 1e300, cast('1234567890123456.7891' as decimal(20,4)), timestamp_ntz'2024-01-02 03:04:05.123456', named_struct('n', 2000000000), array(9000000001), 9000000000 from range(0, 5, 1, 1)" % T(p))
    c.sql("DELETE FROM %s WHERE id %% 10 = 7" % T(p))
    c.expect('widened', notes=done)


def ntz(c):
    p = c.path('ntz')
    c.sql("CREATE TABLE %s (id int, at timestamp_ntz, z timestamp, st struct<w: timestamp_ntz>, part timestamp_ntz) USING delta PARTITIONED BY (part)" % T(p))
    c.sql("""INSERT INTO %s VALUES
      (1, timestamp_ntz'2024-01-02 03:04:05.123456', timestamp'2024-01-02 03:04:05.123456', named_struct('w', timestamp_ntz'2024-01-02 03:04:05'), timestamp_ntz'2024-01-01 00:00:00'),
      (2, timestamp_ntz'1969-12-31 23:59:59.999999', timestamp'1969-12-31 23:59:59.999999', null, timestamp_ntz'2024-03-31 02:30:00.5'),
      (3, null, null, named_struct('w', null), null)""" % T(p))
    c.sql("INSERT INTO %s VALUES (4, timestamp_ntz'9999-12-31 23:59:59.999999', timestamp'1900-01-01 00:00:00', null, timestamp_ntz'2024-01-01 00:00:00'), (5, timestamp_ntz'1582-10-04 12:00:00', timestamp'2038-01-19 03:14:08', null, null), (6, timestamp_ntz'2024-03-31 02:30:00', timestamp'2024-03-31 02:30:00', null, timestamp_ntz'1960-01-01 00:00:00.000001')" % T(p))
    c.sql("DELETE FROM %s WHERE at = timestamp_ntz'2024-03-31 02:30:00'" % T(p))
    c.expect('ntz')


def clone(c):
    """shallow clones: of a plain table (clone of clone_src), and of one with vectors (clone_dv of clone_dv_src). Absolute paths inside."""
    for name, src, dvs in (('clone', 'clone_src', 'false'), ('clone_dv', 'clone_dv_src', 'true')):
        s, p = c.path(src), c.path(name)
        c.sql("CREATE TABLE %s (id bigint, s string, part string) USING delta PARTITIONED BY (part) TBLPROPERTIES ('delta.enableDeletionVectors'='%s')" % (T(s), dvs))
        c.sql("INSERT INTO %s select id, concat('s', id), concat('p %%', id %% 3) from range(0, 3000, 1, 1)" % T(s))
        c.sql("DELETE FROM %s WHERE id %% 10 = 3" % T(s))
        c.sql("CREATE TABLE %s SHALLOW CLONE %s" % (T(p), T(s)))                          # 0
        c.sql("INSERT INTO %s select id, concat('c', id), 'p new' from range(3000, 3100, 1, 1)" % T(p))   # 1
        c.sql("DELETE FROM %s WHERE id %% 10 = 4" % T(p))                                 # 2
        c.sql("DELETE FROM %s WHERE id < 100" % T(s))                                     # the source goes on; the clone must not see it
        c.expect(src)
        c.expect(name, source=src)


def features(c):
    """many writer features at once: change data feed, row tracking, in-commit timestamps, generated + identity + default columns, CHECK, NOT NULL, clustering"""
    p = c.path('features')
    from delta.tables import DeltaTable, IdentityGenerator
    from pyspark.sql.types import LongType, StringType, DateType, TimestampType
    (DeltaTable.create(c.spark).location(p)
        .addColumn('id', LongType(), nullable=False)
        .addColumn('seq', LongType(), generatedAlwaysAs=IdentityGenerator(start=1, step=1))
        .addColumn('at', TimestampType())
        .addColumn('day', DateType(), generatedAlwaysAs='cast(at as date)')
        .addColumn('s', StringType())
        .clusterBy('id', 'day')
        .property('delta.enableChangeDataFeed', 'true').property('delta.enableRowTracking', 'true').property('delta.enableInCommitTimestamps', 'true')
        .property('delta.enableDeletionVectors', 'true').property('delta.feature.allowColumnDefaults', 'supported')
        .execute())
    c.sql("ALTER TABLE %s ALTER COLUMN s SET DEFAULT 'dflt'" % T(p))
    c.sql("ALTER TABLE %s ADD CONSTRAINT pos CHECK (id >= 0)" % T(p))
    c.sql("INSERT INTO %s (id, at, s) select id, timestamp_micros(1704164645123456 + id * 3600000000), concat('s', id) from range(0, 400, 1, 2)" % T(p))
    c.sql("INSERT INTO %s (id, at) select id, timestamp_micros(1704164645123456 + id * 3600000000) from range(400, 420, 1, 1)" % T(p))
    c.sql("UPDATE %s SET s = 'updated' WHERE id %% 50 = 1" % T(p))
    c.sql("DELETE FROM %s WHERE id %% 50 = 2" % T(p))
    c.sql("OPTIMIZE %s" % T(p))
    c.sql("DELETE FROM %s WHERE id %% 50 = 3" % T(p))
    c.expect('features')


def cdf(c):
    """change data feed without vectors: _change_data folder and cdc actions beside adds and removes"""
    p = c.path('cdf')
    c.sql("CREATE TABLE %s (id bigint, s string) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed'='true', 'delta.enableDeletionVectors'='false')" % T(p))
    c.sql("INSERT INTO %s select id, concat('s', id) from range(0, 200, 1, 2)" % T(p))
    c.sql("UPDATE %s SET s = 'u' WHERE id %% 10 = 1" % T(p))
    c.sql("DELETE FROM %s WHERE id %% 10 = 2" % T(p))
    c.expect('cdf')


CITIES = ['plain', 'with space', 'a/b', 'naïve Zürich 東京 🦌', '100%', '50%20off', 'x=y', "it's", 'q"uote', 'c:d', 'e?f#g&h+i',
          'back\\slash', ' lead and trail ', 'dot.', '.hidden', '_under', '[b]{c}|^~`*<>', '', None]


def sparted(c):
    """as by_delta_rs.py's parted, but written (and escaped) by Spark; '' becomes NULL on writing"""
    p = c.path('sparted')
    import datetime as dt
    def rows(lo, hi):
        return c.spark.createDataFrame([(i, CITIES[i % len(CITIES)], None if i % 4 == 3 else dt.date(1969, 12, 31) + dt.timedelta(days=10000 * (i % 4)),
                                         None if i % 9 == 0 else i * 1.25) for i in range(lo, hi)], 'id bigint, city string, day date, v double').coalesce(1)
    rows(0, 120).write.format('delta').partitionBy('city', 'day').save(p)
    rows(120, 160).write.format('delta').mode('append').save(p)
    c.sql("DELETE FROM %s WHERE city = 'a/b'" % T(p))
    c.sql("DELETE FROM %s WHERE city IS NULL AND id < 60" % T(p))
    c.sql("UPDATE " + T(p) + " SET city = '50%20off' WHERE city = '100%'")
    c.expect('sparted')


def sparted_types(c):
    p = c.path('sparted_types')
    cols = "id bigint, p_byte tinyint, p_short smallint, p_int int, p_long bigint, p_float float, p_double double, p_dec decimal(10,2), p_bool boolean, p_date date, p_ts timestamp, p_ntz timestamp_ntz, p_bin binary"
    parts = [x.split()[0] for x in cols.split(', ')][1:]
    c.sql("CREATE TABLE %s (%s) USING delta PARTITIONED BY (%s)" % (T(p), cols, ', '.join(parts)))
    c.sql("""INSERT INTO %s VALUES
     (0, -128, -32768, -2147483648, -9223372036854775808, -1.5, -1.5, -12345678.90, true, date'1900-01-01', timestamp'1969-12-31 23:59:59.999999', timestamp_ntz'1969-12-31 23:59:59.999999', X'616263'),
     (1, 0, 0, 0, 0, 0.1, 0.1, 0.01, false, date'1970-01-01', timestamp'2024-02-29 12:00:00', timestamp_ntz'2024-02-29 12:00:00', X'7A'),
     (2, 127, 32767, 2147483647, 9223372036854775807, 3.0e38, 1.5e300, 99999999.99, true, date'9999-12-31', timestamp'2024-01-02 03:04:05.123456', timestamp_ntz'2024-01-02 03:04:05.123456', X'20'),
     (3, null, null, null, null, null, null, null, null, null, null, null, null),
     (4, 1, 1, 1, 1, double('NaN'), double('Infinity'), 1, true, date'2024-01-02', timestamp'2024-01-02 03:04:05', timestamp_ntz'2024-01-02 03:04:05', X'C3A9')""" % T(p))
    c.sql("DELETE FROM %s WHERE id = 1" % T(p))
    c.expect('sparted_types')


def stypes(c):
    p = c.path('stypes')
    c.sql("""CREATE TABLE %s (id bigint, c_byte tinyint, c_short smallint, c_int int, c_long bigint, c_float float, c_double double, c_dec38_10 decimal(38,10), c_dec9_2 decimal(9,2), c_dec18_0 decimal(18,0),
      c_string string, c_binary binary, c_bool boolean, c_date date, c_ts timestamp, c_ntz timestamp_ntz, c_arr array<int>, c_struct struct<a: int, b: string, c: struct<d: date>>,
      c_map map<string, bigint>, c_arr_struct array<struct<x: double, t: timestamp>>, c_map_arr map<string, array<string>>) USING delta""" % T(p))
    c.sql("""INSERT INTO %s VALUES
     (0, -128, -32768, -2147483648, -9223372036854775808, -1.5, -1.5, cast('-1234567890123456789012345678.0123456789' as decimal(38,10)), -9999999.99, -999999999999999999,
      '', X'', true, date'0001-01-01', timestamp'1900-01-01 00:00:00.000001', timestamp_ntz'1900-01-01 00:00:00.000001', array(), named_struct('a', 1, 'b', '', 'c', named_struct('d', date'2024-02-29')), map(), array(), map()),
     (1, 127, 32767, 2147483647, 9223372036854775807, 0.1, 0.1, cast('9999999999999999999999999999.9999999999' as decimal(38,10)), 9999999.99, 999999999999999999,
      'quote \\" comma , newline \\n tab \\t', X'00FF7F', false, date'9999-12-31', timestamp'2024-01-02 03:04:05.123456', timestamp_ntz'2024-01-02 03:04:05.123456', array(1, null, -3), named_struct('a', null, 'b', null, 'c', null),
      map('k', 1, 'a\\"b', null), array(named_struct('x', 1.5, 't', timestamp'2024-01-02 03:04:05'), null, named_struct('x', null, 't', null)), map('e', array(), 'n', null, 'v', array('x', null, ''))),
     (2, 0, 0, 0, 0, double('NaN'), double('NaN'), 0, 0, 0, 'naïve 東京 🦌', X'C3A9', null, date'1970-01-01', timestamp'1970-01-01 00:00:00', timestamp_ntz'1970-01-01 00:00:00', array(0), named_struct('a', 0, 'b', 'ü', 'c', named_struct('d', null)), map('', 0), array(), map('k', array('v')))""" % T(p))
    c.sql("""INSERT INTO %s VALUES
     (3, 1, 1, 1, 1, double('Infinity'), double('-Infinity'), 0.0000000001, 0.01, 1, 'NULL', X'4E', true, date'1969-12-31', timestamp'1969-12-31 23:59:59.999999', timestamp_ntz'1969-12-31 23:59:59.999999', null, null, null, null, null),
     (4, -1, -1, -1, -1, double('-0.0'), double('-0.0'), -0.0000000001, -0.01, -1, '\\\\N', X'0A', false, date'1582-10-04', timestamp'9999-12-31 23:59:59.999999', timestamp_ntz'9999-12-31 23:59:59.999999', array(2147483647), named_struct('a', 5, 'b', 'x', 'c', null), map('z', -1), array(named_struct('x', 0.1, 't', null)), map('q', array())),
     (7, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null)""" % T(p))
    c.sql("DELETE FROM %s WHERE id = 3" % T(p))
    c.expect('stypes')


def variant(c):
    """a feature that a reader may well refuse; the expected file holds Spark's to_json of the column"""
    p = c.path('variant')
    c.sql("CREATE TABLE %s (id bigint, v variant) USING delta" % T(p))
    c.sql("""INSERT INTO %s select id, if(id = 2, null, parse_json(concat('{"a":', id, ',"b":[1,"x",null]}'))) from range(0, 5, 1, 1)""" % T(p))
    c.expect('variant')


def restored(c):
    """optimize, z-order, restore, vacuum, REPLACE TABLE: operations other than plain DML"""
    p = c.path('restored')
    c.sql("CREATE TABLE %s (id bigint, s string) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='false')" % T(p))
    for v in range(4):
        c.sql("INSERT INTO %s select id, concat('s', id) from range(%d, %d, 1, 1)" % (T(p), v * 100, v * 100 + 100))    # 1..4
    c.sql("OPTIMIZE %s ZORDER BY (id)" % T(p))                # 5
    c.sql("DELETE FROM %s" % T(p))                            # 6
    c.sql("RESTORE TABLE %s TO VERSION AS OF 3" % T(p))       # 7
    c.sql("INSERT OVERWRITE %s select id, 'over' from range(0, 10, 1, 1)" % T(p))   # 8
    c.sql("REPLACE TABLE %s USING delta AS SELECT concat('k', id) k, cast(id as int) id FROM range(0, 7, 1, 1)" % T(p))   # 9
    c.expect('restored')


ALL = [dv, dv_ckpt, mapped, mapped_id, v2ckpt, v2ckpt_parquet, multickpt, widened, ntz, clone, features, cdf, sparted, sparted_types, stypes, restored, variant]


def check(spark, out):
    """Spark against the expected files of by_delta_rs.py"""
    with open(os.path.join(out, 'manifest-deltalake.json')) as f:
        m = json.load(f)
    c = Ctx(spark, out, None)
    res = {}
    for name, t in m['tables'].items():
        for v, x in t['versions'].items():
            want = open(os.path.join(out, x['file']), newline='').read()
            try:
                got = csv_text(c.read(name, int(v)))
                r = 'same'
                if got != want:
                    w, g = want.split('\n'), got.split('\n')
                    d = [(a, b) for a, b in zip(w, g) if a != b]
                    r = 'DIFFERS: %d lines against %d; first: deltalake %r, Spark %r' % (len(w), len(g), *(d[0] if d else ('', '')))
            except Exception as e:
                r = 'Spark fails: ' + str(e).split('\n')[0][:300]
            res['%s@%s' % (name, v)] = r
            if r != 'same':
                print(name, v, r)
    print('%d of %d versions the same in Spark' % (sum(r == 'same' for r in res.values()), len(res)))
    with open(os.path.join(out, 'check-spark-reads-deltalake.json'), 'w') as f:
        json.dump(res, f, indent=1, ensure_ascii=False)


if __name__ == '__main__':
    args = sys.argv[1:]
    do_check = args[0] == '--check'
    if do_check:
        args = args[1:]
    out = os.path.abspath(args[0])
    os.makedirs(out, exist_ok=True)
    spark = session()
    bad = 0
    if do_check:
        check(spark, out)
    else:
        man = Manifest(out, 'spark', 'pyspark %s, delta-spark %s, java %s' % (pyspark.__version__, pkg('delta-spark'), spark._jvm.System.getProperty('java.version')))
        if args[1:] and os.path.exists(man.path):   # a part of the tables: keep what the manifest says of the others
            man.m = json.load(open(man.path))
        c = Ctx(spark, out, man)
        for f in ALL:
            if args[1:] and f.__name__ not in args[1:]:
                continue
            for n in list(man.m['tables']):
                if n == f.__name__ or n.startswith(f.__name__ + '_src') or (f is clone and n.startswith('clone')):
                    del man.m['tables'][n]
            man.m.get('not_made', {}).pop(f.__name__, None)
            t0 = time.time()
            try:
                f(c)
                print('%-14s %.0fs' % (f.__name__, time.time() - t0))
            except Exception as e:
                bad = 1
                traceback.print_exc()
                man.failed(f.__name__, '%s: %s' % (type(e).__name__, str(e)[:500]))
            man.save()
    spark.stop()
    sys.exit(bad)
