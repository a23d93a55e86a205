import type { FieldProblem } from './field-problem.ts'

/** What a custom resource says, or every problem that it has. */
export type Translation<Content> =
  | { readonly value: Content; readonly warnings: readonly FieldProblem[] }
  | { readonly problems: readonly FieldProblem[] }
