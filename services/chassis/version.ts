import packageJson from './package.json' with { type: 'json' }

/** The version of Tollway, which all of its packages share. */
export const version: string = packageJson.version
