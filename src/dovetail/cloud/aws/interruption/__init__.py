"""Sources of interruption notices on AWS: an SQS queue, EC2 status checks, and ending capacity blocks."""
