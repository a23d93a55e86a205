/** A folder or a file of production code, and the folders and files that it may import from. */
export interface ImportRule {
  /** The path from the root; a folder ends with a slash. The longest rule that matches a file decides. */
  readonly place: string
  /** What the place contains: one cell of a Markdown table. */
  readonly content: string
  /** Paths from the root. A place may always import from itself. */
  readonly mayImport: readonly string[]
}
