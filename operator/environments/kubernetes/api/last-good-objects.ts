/** The ConfigMaps of a kind. Together they hold more than the feed can carry. */
const objectsOfKind = 16

/** The names of the ConfigMaps with last good versions, after that of the installation: fixed, for RBAC. */
export function lastGoodObjectNames(plural: string): readonly string[] {
  return Array.from({ length: objectsOfKind }, (_, index) => `last-good-${plural}-${index}`)
}
