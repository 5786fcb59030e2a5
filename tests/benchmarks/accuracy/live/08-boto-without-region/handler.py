import boto3


def route_tables(vpc):
    ec2 = boto3.client("ec2")
    return ec2.describe_route_tables(
        Filters=[{"Name": "vpc-id", "Values": [vpc]}],
    )["RouteTables"]
