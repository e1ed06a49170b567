"""Distances on a sphere."""

import math

EARTH_RADIUS_KM = 6371.0


def to_radians(degrees: float) -> float:
    """Convert degrees to radians."""
    


def haversine(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """Great-circle distance in kilometres between two places given in degrees."""
    phi1, phi2 = to_radians(lat1), to_radians(lat2)
    half_phi = (phi2 - phi1) / 2
    half_lambda = to_radians(lon2 - lon1) / 2
    a = math.sin(half_phi) ** 2 + math.cos(phi1) * math.cos(phi2) * math.sin(half_lambda) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(a))
