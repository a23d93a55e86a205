import type { MerchantAccount } from '../../model.ts'

/** A Merchant in the form of its environment. */
export interface MerchantResource {
  /** Identifies the resource in its environment. */
  readonly key: string
  readonly uid: string
  readonly namespace: string
  readonly name: string
  /** undefined if the manifest was deleted. */
  readonly generation: number | undefined
  /** The whole resource, as input of the translation. */
  readonly manifest: unknown
  readonly paused: boolean
  /** The value of the annotation that requests another key; empty without it. */
  readonly rotation: string
  /** Changes whenever the resource changes in a way that requires a reconcile. */
  readonly revision: string
  /** What the deletion does to the merchant; present only while the resource is being deleted. */
  readonly deletion?: MerchantAccount['onDeletion']
}

export interface MerchantResources<Resource extends MerchantResource> {
  keys(): Iterable<string>
  /**
   * Returns the newest state; undefined if the resource does not exist and its deletion requires no step.
   * Returns `unknown` while the environment cannot tell, for example because a file cannot be read.
   */
  get(key: string): Resource | undefined | 'unknown'
  /**
   * Called before the merchant is created. If the deletion of the resource must close the merchant, ensures
   * that the operator sees the deletion, even after a crash; otherwise ensures that the operator does not
   * delay it. Resolves with the newest state.
   */
  hold(resource: Resource, account: MerchantAccount): Promise<Resource>
  /** Stops delaying the deletion of a resource whose merchant needs no further step. */
  release(resource: Resource): Promise<void>
}
