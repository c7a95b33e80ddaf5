#!/usr/bin/env python3
"""Serves S3 on a free port of loopback, in memory, checking signatures, until it is ended.

    s3_server.py BUCKET

Prints one line of JSON: endpoint, region, and the credentials that may do anything with the bucket.
"""

import json
import os
import sys
import threading

# Requests that may do anything: those below that make user, key, permission and bucket.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "4"

import boto3  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

REGION = "eu-north-1"


def main():
    (bucket,) = sys.argv[1:]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"

    def client(service):
        nobody = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
        return boto3.client(service, endpoint_url=endpoint, region_name=REGION, **nobody)

    iam = client("iam")
    iam.create_user(UserName="tester")
    key = iam.create_access_key(UserName="tester")["AccessKey"]
    allowed = [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]
    policy = json.dumps({"Version": "2012-10-17", "Statement": allowed})
    iam.put_user_policy(UserName="tester", PolicyName="everything", PolicyDocument=policy)
    place = {"LocationConstraint": REGION}
    client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration=place)
    ready = {
        "endpoint": endpoint,
        "region": REGION,
        "access_key_id": key["AccessKeyId"],
        "secret_access_key": key["SecretAccessKey"],
    }
    print(json.dumps(ready), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
