import type { MerchantAccount } from '../../model.ts'

/** A Merchant, as its environment stores it. */
export interface MerchantResource {
  /** Identifies the resource in its environment. */
  readonly key: string
  readonly uid: string
  readonly namespace: string
  readonly name: string
  /** Undefined if the manifest was deleted. */
  readonly generation: number | undefined
  /** The whole resource, for the translation. */
  readonly manifest: unknown
  readonly paused: boolean
  /** The value of the annotation that requests another key; empty without it. */
  readonly rotation: string
  /** Differs between two states of the resource that need a reconcile each. */
  readonly revision: string
  /** The effect of its deletion on the merchant. Set while the resource is being deleted. */
  readonly deletion?: MerchantAccount['onDeletion']
}

/** The Merchants of an environment. */
export interface MerchantResources<Resource extends MerchantResource> {
  keys(): Iterable<string>
  /**
   * Returns the newest state; undefined if there is no such resource and its deletion needs no step.
   * Returns `unknown` while the environment cannot say, such as for a file that cannot be read.
   */
  get(key: string): Resource | undefined | 'unknown'
  /**
   * Ensures that a deletion of the resource is seen, also after a crash, if it has to close the merchant;
   * otherwise, that it is not delayed. Called before there is a merchant. Resolves with the newest state.
   */
  hold(resource: Resource, account: MerchantAccount): Promise<Resource>
  /** Removes what delays the deletion of a resource, whose merchant needs no step any more. */
  release(resource: Resource): Promise<void>
}
