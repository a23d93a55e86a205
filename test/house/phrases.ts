/**
 * Phrases that comments and pages avoid, because they hide the subject or the verb of a sentence. The list is
 * a measure today; `test/tidy.test.ts` enforces it once no comment has one of them.
 */
export const phrases: readonly RegExp[] = [
  /\b(told|tells?)\b/,
  /\bwhoever\b/i,
  /\b(some|no)body\b/i,
  /\bso (long|many)\b/i,
  /\bof ours\b/,
  /\bmakes? true\b/,
  /\ba thing of its own\b/,
  /\b(is|are) nothing to\b/,
  /\bsees to it\b/i,
  /\bstood there\b/,
  /\b(lives|dies|speaks)\b/,
  /(?:^|[.;:] |\* |\/\/ )What (?:is|was|are|were|it|they|has|have)\b/,
  /\bbrings? about\b/,
  /\bgoes on\b/,
  /\bof itself\b/,
  /\bin peace\b/,
]
