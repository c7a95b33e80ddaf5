module nyala/benchmarks/object/counter

go 1.26
