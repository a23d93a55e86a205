/** The content of a custom resource, or all its problems. */
export type Translation<Content> =
  | { readonly value: Content; readonly warnings: readonly FieldProblem[] }
  | { readonly problems: readonly FieldProblem[] }

/** A problem or a warning of a resource: the field, what was found and what is allowed. */
export interface FieldProblem {
  /** The field: `spec.descriptors[2].rateLimit.unit`. Empty for the whole resource. */
  readonly path: string
  readonly message: string
}

/** Returns a problem in one line, without the location of the resource. */
export function formatFieldProblem({ path, message }: FieldProblem): string {
  return path === '' ? message : `${path}: ${message}`
}
