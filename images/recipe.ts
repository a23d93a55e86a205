import type { FileTree } from '@tollway/chassis/file-tree.ts'
import type { RunConfig } from './oci-archive.ts'

export interface Recipe {
  readonly name: string
  /** The name of the image without a registry and a tag: `tollway/operator`. */
  readonly repository: string
  readonly title: string
  /** True for the images of Tollway. The others are servers for tests, which then need no registry. */
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
  /**
   * The layers, beginning with the one that changes least. In all recipes, a layer name stands for one
   * content: a layer with a known name is not made again.
   */
  readonly layers: readonly { readonly name: string; readonly tree: FileTree }[]
  /** The bill of materials as JSON (CycloneDX), for images of Tollway. */
  readonly bill?: string
}
