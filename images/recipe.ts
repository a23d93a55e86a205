import type { FileTree } from '@tollway/chassis/archive/file-tree.ts'
import type { RunConfig } from './oci-archive.ts'

/** An image that `make images` can make. */
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
   * Returns the content of the image.
   *
   * @throws Error that names what the machine lacks
   */
  gather(): Promise<Contents> | Contents
}

export interface Contents {
  /** The layers, the one that changes least first. Each has a unique name, the same for the same content. */
  readonly layers: readonly { readonly name: string; readonly tree: FileTree }[]
  /** The bill of materials (CycloneDX). */
  readonly bill?: string
}
