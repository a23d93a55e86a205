import type { FieldProblem } from './field-problem.ts'

/** The content of a custom resource, or all its problems. */
export type Translation<Content> =
  | { readonly value: Content; readonly warnings: readonly FieldProblem[] }
  | { readonly problems: readonly FieldProblem[] }
