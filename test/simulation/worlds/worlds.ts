import type { AnyWorld, Defect } from '../engine/world.ts'
import { feedWorld } from './feed-world.ts'
import { leasesWorld } from './leases-world.ts'
import { quotaWorld } from './quota-world.ts'
import { reconcileWorld } from './reconcile-world.ts'
import { sharesWorld } from './shares-world.ts'

/** A new world needs a line here. */
export const worlds: readonly AnyWorld[] = [feedWorld, leasesWorld, quotaWorld, reconcileWorld, sharesWorld]

/** @throws Error that names all defects if there is no such one */
export function findDefect(name: string): { readonly world: AnyWorld; readonly defect: Defect } {
  for (const world of worlds) {
    const defect = world.defects.find((one: Defect) => one.name === name)
    if (defect) return { world, defect }
  }
  const names = worlds.flatMap(({ defects }) => defects.map((one: Defect) => one.name))
  throw new Error(`--defect: "${name}" is not one of all, ${names.join(', ')}`)
}
