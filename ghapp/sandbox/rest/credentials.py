"""Authenticates callers: an App by its JWT, or an installation by its token."""

from __future__ import annotations

import time
from http import HTTPStatus

import jwt

from ghapp.sandbox.apps import App, SandboxToken
from ghapp.sandbox.registry import Registry
from ghapp.sandbox.rest.answers import RestError

LONGEST_JWT_SECONDS = 600


def bearer(authorization: str) -> str:
    """Returns the credential of an `Authorization` header, with `Bearer` or the older `token`.

    Raises:
        RestError: 401, no credential.
    """
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() not in {"bearer", "token"} or not value:
        raise RestError(HTTPStatus.UNAUTHORIZED, "Requires authentication")
    return value.strip()


def calling_app(registry: Registry, encoded: str, ahead: float = 0.0) -> App:
    """Returns the App that signed this JWT.

    Checked by the wall clock, as the caller's library does, plus the seconds that GitHub's clock is `ahead`.

    Raises:
        RestError: 401, with GitHub's reasons.
    """
    try:
        issuer = jwt.decode(encoded, options={"verify_signature": False}).get("iss")
        app = registry.app_issuing(str(issuer))
        if app is None:
            raise RestError(HTTPStatus.UNAUTHORIZED, "Integration not found")
        claims = jwt.decode(
            encoded,
            app.public_key_pem,
            algorithms=["RS256"],
            options={"require": ["iat", "exp", "iss"], "verify_iss": False, "verify_iat": False, "verify_exp": False},
        )
        issued, expires = int(claims["iat"]), int(claims["exp"])
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise RestError(HTTPStatus.UNAUTHORIZED, "A JSON web token could not be decoded") from error
    now = time.time() + ahead
    if expires <= now:
        raise RestError(HTTPStatus.UNAUTHORIZED, "'Expiration time' claim ('exp') is in the past")
    if issued > now:
        raise RestError(HTTPStatus.UNAUTHORIZED, "'Issued at' claim ('iat') is in the future")
    if expires > now + LONGEST_JWT_SECONDS:
        raise RestError(HTTPStatus.UNAUTHORIZED, "'Expiration time' claim ('exp') is too far in the future")
    return app


def calling_token(registry: Registry, value: str, now: float) -> SandboxToken:
    """Returns the installation token of that value.

    Raises:
        RestError: 401 for an unknown or expired token, 403 while its installation is suspended.
    """
    token = registry.token(value, now)
    if token is None:
        raise RestError(HTTPStatus.UNAUTHORIZED, "Bad credentials")
    if token.installation.suspended_at is not None:
        raise RestError(HTTPStatus.FORBIDDEN, "This installation has been suspended")
    return token
