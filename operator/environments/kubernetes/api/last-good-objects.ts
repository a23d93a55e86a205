/** The number of ConfigMaps for one kind. Together they can hold more than the feed can carry. */
const objectsOfKind = 16

/**
 * Returns the names of the ConfigMaps with last good contents, without the installation's name. They are
 * fixed, so that RBAC can name them.
 */
export function lastGoodObjectNames(plural: string): readonly string[] {
  return Array.from({ length: objectsOfKind }, (_, index) => `last-good-${plural}-${index}`)
}
