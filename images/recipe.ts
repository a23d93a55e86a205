import type { FileTree } from '@tollway/chassis/archive/file-tree.ts'
import type { RunConfig } from './oci-archive.ts'

/** What `make images` can make, before anything of it is made. */
export interface Recipe {
  /** As it is asked for, and as its files are called: `operator`. */
  readonly name: string
  /** `tollway/operator`. */
  readonly repository: string
  readonly title: string
  /** Whether it is an image of Tollway; the others exist so that tests need no registry. */
  readonly ours: boolean
  readonly run: RunConfig
  /**
   * Finds or makes everything that goes in.
   *
   * @throws Error that says what the machine lacks.
   */
  gather(): Promise<Contents> | Contents
}

export interface Contents {
  /** From the one that changes least; each has a name of its own, the same for the same content. */
  readonly layers: readonly { readonly name: string; readonly tree: FileTree }[]
  /** Its bill of materials as CycloneDX. */
  readonly bill?: string
}
