#!/usr/bin/env bash
# Delta tables that delta-rs and Spark write, as Nyala reads them beside what these programs read:
#
#     run.sh NYALA FOLDER
#
# Makes the programs, the tables and the expected rows in FOLDER, once (some ten minutes, 1 GB), then compares each table in each
# version. Needs python3, a JDK and Maven.
set -euo pipefail
DELTA=4.4.0 SPARK=4.2.0 SCALA=2.13
nyala=$(realpath "$1")
mkdir -p "$2"
work=$(realpath "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONDONTWRITEBYTECODE=1

venv() {
    [ -x "$work/$1/bin/python" ] || python3 -m venv "$work/$1"
    "$work/$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
}

# What Spark does not bring itself.
jars() {
    mkdir -p "$work/mvn"
    cat >"$work/mvn/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>delta</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>io.delta</groupId><artifactId>delta-spark_${SPARK%.*}_$SCALA</artifactId><version>$DELTA</version></dependency>
  </dependencies>
</project>
POM
    (cd "$work/mvn" && mvn -B -q dependency:copy-dependencies -DincludeScope=runtime \
        -DincludeGroupIds=io.delta,io.unitycatalog,org.locationtech.jts -DoutputDirectory="$work/jars")
}

if ! [ -e "$work/made" ]; then
    venv venv deltalake==1.6.6 pyarrow==26.0.1
    venv venv-spark pyspark==$SPARK delta-spark==$DELTA pyarrow==26.0.1
    [ -d "$work/jars" ] || jars
    mkdir -p "$work/out"
    "$work/venv/bin/python" "$here/by_delta_rs.py" "$work/out"
    JARS="$work/jars" "$work/venv-spark/bin/python" "$here/by_spark.py" "$work/out"
    touch "$work/made"
fi
"$work/venv/bin/python" "$here/compare.py" "$nyala" "$work/out" "${@:3}"
