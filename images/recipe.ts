import type { FileTree } from '@tollway/chassis/archive/file-tree.ts'
import type { RunConfig } from './oci-archive.ts'

/** The description of an image that `make images` can make. */
export interface Recipe {
  /** The name for the command line and the files: `operator`. */
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
  /** The layers, the one that changes least first. Each has a unique name, the same for the same content. */
  readonly layers: readonly { readonly name: string; readonly tree: FileTree }[]
  /** Its bill of materials as CycloneDX. */
  readonly bill?: string
}
