import type { RightList } from '../../../api/shapes.ts'

/** Whether the user has a right. No, as long as the rights are not known. */
export function hasRight(list: RightList | undefined, verb: string, resource: string): boolean {
  return (
    list?.rights.some(right => right.verb === verb && right.resource === resource && right.allowed) ?? false
  )
}
