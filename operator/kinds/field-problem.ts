/** A problem or a warning of a resource: the field, what was found and what is allowed. */
export interface FieldProblem {
  /** `spec.descriptors[2].rateLimit.unit`; empty for the whole. */
  readonly path: string
  readonly message: string
}

/** A problem in one line, without the location of the resource. */
export function formatFieldProblem({ path, message }: FieldProblem): string {
  return path === '' ? message : `${path}: ${message}`
}
