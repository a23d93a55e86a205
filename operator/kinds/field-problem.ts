/** What is wrong (or doubtful) in a resource: the field, and what was found and is allowed. */
export interface FieldProblem {
  /** `spec.descriptors[2].rateLimit.unit`; empty for the whole. */
  readonly path: string
  readonly message: string
}

/** A problem in one line, without where the resource stands. */
export function formatFieldProblem({ path, message }: FieldProblem): string {
  return path === '' ? message : `${path}: ${message}`
}
