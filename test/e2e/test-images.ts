/** Published images, and the images of `make images` that replace them in a cluster without a registry. */
const images = [
  [/docker\.io\/envoyproxy\/ratelimit:\S+/g, 'tollway/ratelimit:dev'],
  [/docker\.io\/envoyproxy\/envoy:\S+/g, 'tollway/test-envoy:dev'],
  [/docker\.io\/redis:\S+/g, 'tollway/test-redis:dev'],
  // The image of the rate limit service has Node, too.
  [/docker\.io\/library\/node:\S+/g, 'tollway/ratelimit:dev'],
] as const

/** Returns the manifest with other images, and no other change. */
export function withTestImages(manifest: string): string {
  return images.reduce((text, [published, made]) => text.replaceAll(published, made), manifest)
}
