# Writes reference.json: comparisons of two runs as R computes them. Run in this folder: Rscript reference.R > reference.json
# Needs R with the packages sandwich and boot. The file in the repository was written with R 4.2.2, sandwich 3.0-2, boot 1.3-28.1.
suppressMessages({library(sandwich); library(boot)})

# From and to are the scores of the rows in two runs; cluster groups the rows, or is NULL.
compare <- function(name, from, to, cluster = NULL) {
  d <- to - from
  n <- length(d)
  groups <- if (is.null(cluster)) seq_len(n) else cluster
  g <- length(unique(groups))
  binary <- all(c(from, to) %in% c(0, 1))
  lost <- sum(d < 0)
  won <- sum(d > 0)
  # If all differences are equal, the standard error is 0, and the half-width of the interval is Clopper and Pearson's bound for 0 of g.
  same <- g == 1 || max(abs(d - mean(d))) < 1e-9
  if (same) {
    se <- 0
    half <- binom.test(0, g)$conf.int[2]
  } else if (is.null(cluster)) {
    se <- t.test(d)$stderr
    half <- diff(t.test(d)$conf.int) / 2
  } else {
    se <- sqrt(vcovCL(lm(d ~ 1), cluster = cluster, type = "HC0", cadjust = TRUE)[1, 1])
    half <- qt(0.975, g - 1) * se
  }
  if (binary && is.null(cluster)) {
    p <- if (lost + won == 0) 1 else binom.test(lost, lost + won)$p.value
    less <- if (lost + won == 0) 1 else binom.test(lost, lost + won, alternative = "greater")$p.value
  } else if (same) { # the sign test of the groups
    less <- if (mean(d) < 0) binom.test(g, g, alternative = "greater")$p.value else 1
    p <- if (mean(d) == 0) 1 else binom.test(g, g)$p.value
  } else {
    less <- pt(mean(d) / se, g - 1)
    p <- 2 * pt(-abs(mean(d) / se), g - 1)
  }
  low <- max(-1, mean(d) - half)
  high <- min(1, mean(d) + half)
  sampled <- !binary && !same && g >= 30
  if (sampled) {
    set.seed(1)
    sums <- tapply(d, groups, sum)
    sizes <- tapply(d, groups, length)
    b <- boot(seq_along(sums), function(x, i) sum(sums[i]) / sum(sizes[i]), R = 200000)
    ci <- boot.ci(b, type = "perc")$percent
    low <- ci[4]
    high <- ci[5]
  }
  number <- function(x) paste(sprintf("%.15g", x), collapse = ", ")
  clusters <- if (is.null(cluster)) "null" else sprintf("[%s]", paste0('"', cluster, '"', collapse = ", "))
  sprintf('  {"name": "%s",\n   "baseline": [%s],\n   "candidate": [%s],\n   "cluster": %s,\n   "n": %d, "clusters": %d, "lost": %d, "won": %d, "mean": %s, "se": %s, "low": %s, "high": %s, "p": %s, "worse": %s, "sampled": %s}',
    name, number(from), number(to), clusters, n, g, lost, won, number(mean(d)), number(se), number(low), number(high), number(p), number(less), tolower(sampled))
}

set.seed(7)
half <- function(n) round(runif(n) * 20) / 20
from <- c(half(60), rep(0.5, 20))
to <- pmin(1, pmax(0, from + round(rnorm(80, -0.04, 0.1) * 20) / 20)) # four fifths of a step: many ties
tied <- half(9)
passages <- c("a", "a", "a", "b", "b", "c", "c", "c", "c", "d", "e", "e")

cases <- c(
  compare("right and wrong, 12 rows", c(1, 1, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1), c(1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0)),
  compare("5 rows, 3 lost", c(1, 1, 1, 1, 0), c(0, 0, 0, 1, 0)),
  compare("one row, lost", 1, 0),
  compare("all right in both, 30 rows", rep(1, 30), rep(1, 30)),
  compare("all wrong in both, 9 rows", rep(0, 9), rep(0, 9)),
  compare("all right, then all wrong, 6 rows", rep(1, 6), rep(0, 6)),
  compare("all wrong, then all right, 8 rows", rep(0, 8), rep(1, 8)),
  compare("as many lost as won, 20 rows", c(rep(1, 5), rep(0, 5), rep(1, 10)), c(rep(0, 5), rep(1, 5), rep(1, 10))),
  compare("60 lost and 45 won, 400 rows", c(rep(1, 60), rep(0, 45), rep(c(1, 0), c(200, 95))), c(rep(0, 60), rep(1, 45), rep(c(1, 0), c(200, 95)))),
  compare("scores, 7 rows", c(0.9, 0.25, 0.5, 0.75, 0.8, 0.1, 0.6), c(0.8, 0.25, 0.45, 0.5, 0.85, 0.05, 0.3)),
  compare("scores, all tied, 9 rows", tied, tied),
  compare("scores, all lower by a tenth, 8 rows", (2:9) / 10, (1:8) / 10),
  compare("scores with many ties, 80 rows", from, to),
  compare("clusters of right and wrong", c(1, 1, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1), c(1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0), passages),
  compare("clusters of scores, 6 of 40 rows", from[1:40], to[1:40], paste0("p", c(rep(1, 20), rep(2, 8), rep(3:6, each = 3)))),
  compare("clusters of scores, 40 of 80 rows", from, to, paste0("p", rep(1:40, each = 2))),
  compare("one cluster of right and wrong", c(1, 1, 1, 0, 1, 1, 0), c(1, 0, 0, 0, 1, 0, 1), rep("a", 7)),
  compare("one cluster of scores", c(0.1, 0.2, 0.7), c(0.15, 0.1, 0.3), rep("a", 3))
)
cat("[\n", paste(cases, collapse = ",\n"), "\n]\n", sep = "")
