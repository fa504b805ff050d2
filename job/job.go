// Package job is what travels between producers and workers: requests, results and their figures, the rows of files that
// they are read from and written to, and the Redis keys and scripts that both sides use.
package job
