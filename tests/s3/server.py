"""S3 server for tests: moto, with a bucket and a key whose signatures are checked. Prints both and its URL as JSON, then
serves until standard input is closed.

It needs no files, keeps everything in memory, and listens on a free port of 127.0.0.1.
"""

import json
import logging
import sys
import urllib.request
from urllib.parse import parse_qsl, quote, urlsplit

import boto3
from moto.iam.access_control import IAMRequestBase
from moto.server import ThreadedMotoServer

BUCKET = "files"
REGION = "us-east-1"


create_request = IAMRequestBase._create_aws_request


def create_request_with_encoded_query(request):
    """moto passes the decoded query to the check of the signature, so each prefix with a slash fails it."""
    parts = urlsplit(request._path)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in pairs)
    request._path = parts._replace(query=query).geturl()
    return create_request(request)


IAMRequestBase._create_aws_request = create_request_with_encoded_query


def main():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    anyone = {"endpoint_url": url, "region_name": REGION, "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    boto3.client("s3", **anyone).create_bucket(Bucket=BUCKET)
    iam = boto3.client("iam", **anyone)
    iam.create_user(UserName="openvibe")
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    iam.put_user_policy(UserName="openvibe", PolicyName="files", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName="openvibe")["AccessKey"]
    # From now on, requests need a valid signature.
    reset = urllib.request.Request(
        f"{url}/moto-api/reset-auth", data=b"0", method="POST", headers={"content-type": "text/plain"}
    )
    urllib.request.urlopen(reset, timeout=10).read()
    started = {
        "url": url,
        "bucket": BUCKET,
        "region": REGION,
        "key": key["AccessKeyId"],
        "secret": key["SecretAccessKey"],
    }
    print(json.dumps(started), flush=True)
    sys.stdin.read()


main()
