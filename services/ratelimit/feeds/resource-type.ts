/** The type that the service asks a management server for. */
export const rateLimitTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'
