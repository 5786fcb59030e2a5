import boto3
from moto import mock_aws

from handler import route_tables


@mock_aws
def test_route_tables():
    ec2 = boto3.client("ec2", region_name="us-east-1")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    assert len(route_tables(vpc)) == 1


@mock_aws
def test_no_route_tables():
    assert route_tables("vpc-0") == []
