"""What operators may ask and tell: admin messages, their scopes and their audit."""
