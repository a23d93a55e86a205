/** The suggestions for a value. */
export type Completion =
  | { readonly kind: 'none' }
  | { readonly kind: 'values'; readonly values: readonly string[] }
  | { readonly kind: 'file' }
  | { readonly kind: 'folder' }
  /** Names that the resources have: their domains, and the rules of a domain. */
  | { readonly kind: 'domain' }
  | { readonly kind: 'rule' }

export const noValues: Completion = { kind: 'none' }
export const aFile: Completion = { kind: 'file' }
export const aFolder: Completion = { kind: 'folder' }
export const aDomain: Completion = { kind: 'domain' }
export const aRule: Completion = { kind: 'rule' }
